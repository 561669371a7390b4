"""``python -m tidegate.config --docs``: the reference tables of the policy file.

Printed, or with ``--write`` put into the page, or with ``--check`` compared with it.
"""

from __future__ import annotations

import argparse
import sys

from tidegate.config import docs


def main(arguments: list[str] | None = None) -> int:
    """0 when done, 1 when the page is out of date."""
    parser = argparse.ArgumentParser(prog="python -m tidegate.config", description="Reference tables")
    parser.add_argument("--docs", action="store_true", help="print the tables (the default)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help=f"fail when {docs.PAGE} is out of date")
    what.add_argument("--write", action="store_true", help=f"bring {docs.PAGE} up to date")
    chosen = parser.parse_args(arguments)
    if not chosen.check and not chosen.write:
        sys.stdout.write(docs.tables() + "\n")
        return 0
    page = docs.PAGE.read_text(encoding="utf-8")
    current = docs.page_with_tables(page)
    if chosen.write:
        docs.PAGE.write_text(current, encoding="utf-8")
    elif page != current:
        sys.stderr.write(f"{docs.PAGE} is out of date; run: python -m tidegate.config --docs --write\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
