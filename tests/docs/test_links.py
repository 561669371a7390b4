"""What the docs point at is there: files, headings, names in the code."""

import importlib
import inspect
import re

import pytest

from docs.pages import PAGES, ROOT, section, without_code

LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
FOLDERS = sorted(path.name for path in (ROOT / "src/tidegate").iterdir() if (path / "__init__.py").exists())
NAME = re.compile(rf"`((?:{'|'.join(FOLDERS)})(?:\.\w+)+)`")


def anchors(page):
    headings = re.findall(r"^#+ (.+)$", without_code(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def found(dotted):
    """The object that a dotted name below ``tidegate`` means."""
    words = dotted.split(".")
    for length in range(len(words), 0, -1):
        try:
            here = importlib.import_module(".".join(("tidegate", *words[:length])))
        except ModuleNotFoundError:
            continue
        for word in words[length:]:
            here = getattr(here, word)
        return here
    raise LookupError(dotted)


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name):
    for _, target in LINK.findall(without_code(PAGES[name])):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        there = (ROOT / name).parent / path if path else ROOT / name
        assert there.exists(), target
        if anchor:
            assert anchor in anchors(there.read_text(encoding="utf-8")), target


@pytest.mark.parametrize("name", PAGES)
def test_every_path_in_prose_exists(name):
    prose = without_code(PAGES[name])
    for path in re.findall(r"`((?:src|tests|docs|examples|benchmarks|requirements)/[\w./-]+)`", prose):
        assert (ROOT / path).exists(), path


def is_a_key(dotted):
    """A key of the policy file may begin like a name in the code: ``gateway.port``."""
    top, _, key = dotted.partition(".")
    page = PAGES["docs/policy-file.md"]
    if f"### `{dotted}`" in page:
        return True
    return f"### `{top}`" in page and f"| `{key}` |" in section(page, f"### `{top}`")


@pytest.mark.parametrize("name", PAGES)
def test_every_named_thing_of_the_code_exists(name):
    for dotted in NAME.findall(without_code(PAGES[name])):
        if not dotted.endswith((".py", ".yaml")) and not is_a_key(dotted):
            found(dotted)


def test_a_name_in_the_tour_links_to_the_file_that_defines_it():
    linked = [(NAME.fullmatch(text), target) for text, target in LINK.findall(PAGES["docs/tour.md"])]
    names = [(match[1], target) for match, target in linked if match]

    assert len(names) > 50
    for dotted, target in names:
        assert inspect.getsourcefile(found(dotted)) == str((ROOT / "docs" / target).resolve()), dotted


def test_every_name_in_the_tour_is_a_link():
    prose = LINK.sub("", PAGES["docs/tour.md"])

    assert not NAME.findall(prose)
