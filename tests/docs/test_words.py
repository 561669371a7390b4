"""What must not be on a page: people, machines, and words of another time."""

import re

import pytest

from docs.pages import PAGES, ROOT, without_code

PATHS = re.compile(r"(?<![\w~.])/(?:home|root|work|tmp|Users|mnt|opt/\w)")
PEOPLE = re.compile(r"[\w.+-]+@[\w-]+\.\w+|(?<![\w`/])@[a-z]\w+|\b(?:Mr|Mrs|Ms|Dr)\. [A-Z]")
REGISTRIES = re.compile(r"pypi\.org|files\.pythonhosted|artifactory|index-url", re.IGNORECASE)
SALES = re.compile(
    r"\b(blazing|seamless\w*|effortless\w*|revolutionary|world[- ]class|cutting[- ]edge|next[- ]gen\w*|leverag\w+)\b",
    re.IGNORECASE,
)
NUMBERS_OF_ISSUES = re.compile(r"(?:\bissue|\bPR|\(|\s)#\d+")


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("unwanted", [PATHS, PEOPLE, REGISTRIES, SALES, NUMBERS_OF_ISSUES])
def test_no_page_holds(name, unwanted):
    assert not unwanted.findall(PAGES[name])


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_one_title_and_lines_that_fit(name):
    prose = without_code(PAGES[name])

    assert len(re.findall(r"^# ", prose, re.MULTILINE)) == 1
    # A row of a table is one line, however long; so is a link or a picture.
    long = [
        line for line in prose.splitlines() if len(line) > 125 and not line.startswith(("|", "<", "[", "!"))
    ]
    assert not long


@pytest.mark.parametrize("path", sorted((ROOT / "docs/pictures").glob("*.png")), ids=lambda path: path.name)
def test_a_picture_is_small_and_shown(path):
    assert path.stat().st_size < 300_000
    assert any(f"pictures/{path.name})" in page for page in PAGES.values())


def test_every_page_can_be_reached_from_the_readme():
    reached, todo = set(), ["README.md"]
    while todo:
        name = todo.pop()
        if name in reached or name not in PAGES:
            continue
        reached.add(name)
        for target in re.findall(r"\]\(([^)\s#]+)", PAGES[name]):
            there = ((ROOT / name).parent / target).resolve()
            if there.is_dir():
                todo += [path.relative_to(ROOT).as_posix() for path in there.glob("*.md")]
            elif there.is_relative_to(ROOT):
                todo.append(there.relative_to(ROOT).as_posix())

    assert set(PAGES) - reached == set()


@pytest.mark.parametrize("name", [name for name in PAGES if name.startswith("docs/decisions/")])
def test_a_decision_has_its_four_parts(name):
    page = PAGES[name]
    number = int(name.rpartition("/")[2][:4])

    assert page.startswith(f"# {number}. ")
    assert re.search(r"^Status: (accepted|superseded by .+)$", page, re.MULTILINE)
    assert all(f"\n## {part}\n" in page for part in ("Question", "Choice", "Consequence"))
