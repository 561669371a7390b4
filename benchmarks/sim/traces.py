"""The public traces that the cases play, and where they are."""

from __future__ import annotations

import csv
import gzip
import os
from array import array
from pathlib import Path
from typing import Any

from tidegate.sim.kernel import SeededDice
from tidegate.workload.formats import read, servegen
from tidegate.workload.servegen import fortnight
from tidegate.workload.traces import Trace

ROOT = Path(__file__).parents[2]


class NoTrace(Exception):
    """A trace that a case needs is not here."""


def folder() -> Path:
    """Where the traces are: ``TIDEGATE_TRACES``, or ``shared/traces`` beside the repository."""
    return Path(os.environ.get("TIDEGATE_TRACES", ROOT.parent / "shared" / "traces"))


def found(pattern: str) -> Path:
    """The one file of this pattern.

    Raises:
        NoTrace: it is not there.
    """
    match = next(iter(sorted(folder().glob(pattern))), None)
    if match is None:
        message = f"no {pattern} in {folder()}; TIDEGATE_TRACES names another folder"
        raise NoTrace(message)
    return match


def opened(path: Path) -> Any:
    """The text of a file, unpacked if it is packed."""
    return gzip.open(path, "rt") if path.suffix == ".gz" else path.open()


def public(pattern: str) -> Trace:
    """A trace in a format that is read as it is."""
    with opened(found(pattern)) as lines:
        return read(lines, SeededDice(1)).trace


def vidur_512() -> list[tuple[float, int, int]]:
    """Moment, prompt and output tokens of the 512 requests at 2 a second."""
    with opened(found("vidur-reference/requests_512*")) as lines:
        rows = csv.DictReader(lines)
        return [(float(r["arrived_s"]), int(r["prefill_tokens"]), int(r["decode_tokens"])) for r in rows]


def servegen_fortnight(rate_scale: float) -> Trace:
    """Fourteen days of language-m-large, client by client, at a part of its rate."""
    with opened(found("servegen/language-m-large-clients*")) as lines:
        clients, _ = servegen.read_clients(lines)
    with opened(found("servegen/language-m-large-lengths*")) as lines:
        lengths, _ = servegen.read_lengths(lines)
    return fortnight(clients, lengths, SeededDice(1), rate_scale=rate_scale)


def repeated(rows: list[tuple[float, int, int]], count: int) -> Trace:
    """The rows again and again, one pass after the other, until there are so many."""
    span_s = rows[-1][0] + rows[-1][0] / len(rows)
    trace = Trace()
    picked = [(place // len(rows), rows[place % len(rows)]) for place in range(count)]
    trace.arrived_s = array("d", [lap * span_s + row[0] for lap, row in picked])
    trace.prompt_tokens = array("i", [row[1] for _, row in picked])
    trace.output_tokens = array("i", [row[2] for _, row in picked])
    return trace
