"""Each test that docs/routing.md names exists."""

import re

from docs.pages import PAGES, ROOT, quoted, rows


def test_every_case_names_tests_that_exist():
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    defined = set(re.findall(r"def (\w+)\(", code))
    cases = [row for row in rows(PAGES["docs/routing.md"]) if len(row) == 3 and row[0] != "case"]

    assert len(cases) > 25
    for case, _, tests in cases:
        assert quoted(tests), case
        assert set(quoted(tests)) <= defined, case
