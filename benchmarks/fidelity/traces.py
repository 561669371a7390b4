"""Where the public traces and reference measurements lie, and reading them."""

from __future__ import annotations

import csv
import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class Absent(Exception):
    """The traces are not at hand; the message says where they were looked for."""


def folder(name: str) -> Path:
    """The folder of one public trace: in ``TIDEGATE_TRACES``, or in ``../shared/traces`` beside the repository.

    Raises:
        Absent: it is in neither.
    """
    place = Path(os.environ.get("TIDEGATE_TRACES") or ROOT.parent / "shared" / "traces")
    if not (place / name).is_dir():
        message = (
            f"needs the public traces in {place / name}; set TIDEGATE_TRACES to the folder that has {name}"
        )
        raise Absent(message)
    return place / name


def rows(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a CSV file, packed or not."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        yield from csv.DictReader(lines)


def json_lines(path: Path) -> list[dict[str, Any]]:
    with path.open() as lines:
        return [json.loads(line) for line in lines]
