"""The pages of the documentation, read once."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))
}


def without_code(page):
    """The page's prose: fenced blocks are left out."""
    return re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)


def blocks(page, language):
    """The fenced blocks of this language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)


def section(page, heading):
    """What stands under a heading, up to the next of its level or above."""
    level, found, lines = heading.partition(" ")[0], False, []
    for line in page.splitlines():
        if found and re.match(rf"#{{1,{len(level)}}} ", line):
            break
        if found:
            lines.append(line)
        found = found or line == heading
    assert found, f"there is no heading {heading!r}"
    return "\n".join(lines)


def rows(text):
    """The cells of every table row, headings and rules left out."""
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("|---")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def quoted(cell):
    """Everything between backticks."""
    return re.findall(r"`([^`]+)`", cell)
