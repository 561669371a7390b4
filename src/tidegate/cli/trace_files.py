"""Trace files for the commands that read them: opened, guessed, scaled, cut, and what is wrong said."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, TextIO

import click

from tidegate.core.types import Dice
from tidegate.workload.formats import Format, Reading, UnreadableTrace, named_csv, read, servegen
from tidegate.workload.lengths import Fixed, Independent, Lengths, filled
from tidegate.workload.scale import between, scaled_time
from tidegate.workload.servegen import WindowedLengths
from tidegate.workload.traces import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which part of which trace, at what scale."""

    path: Path
    form: Format | None = None
    lengths: str | None = None
    """``PROMPT/OUTPUT`` tokens, or a file to draw from, for requests without them."""
    rate_scale: float = 1.0
    time_scale: float = 1.0
    from_s: float = 0.0
    until_s: float = inf


def wanted_trace(path: Path, options: dict[str, Any]) -> Wanted:
    """What the options of ``trace_options`` ask for."""
    name = options["form"]
    known = {form.value: form for form in Format}
    if name is not None and name not in known:
        raise click.UsageError(f"--format {name}: known are {', '.join(known)}")
    return Wanted(
        path=path,
        form=known[name] if name else None,
        lengths=options["lengths"],
        rate_scale=options["rate_scale"],
        time_scale=options["time_scale"],
        from_s=options["from_s"],
        until_s=inf if options["until_s"] is None else options["until_s"],
    )


def load_trace(wanted: Wanted, dice: Dice) -> Reading:
    """The trace that is wanted.

    Raises:
        click.UsageError: it cannot be read, or has nothing in it.
    """
    reading = read_file(wanted.path, dice, wanted.form, wanted.rate_scale)
    trace = reading.trace
    if (wanted.from_s, wanted.until_s) != (0.0, inf):
        trace = between(trace, wanted.from_s, wanted.until_s)
    if wanted.time_scale != 1.0:
        try:
            trace = scaled_time(trace, wanted.time_scale)
        except ValueError as error:
            raise click.UsageError(f"--time-scale: {error}") from None
    if not len(trace):
        message = f"{wanted.path}: no request is left of it; {reading.broken}"
        raise click.UsageError(message)
    if wanted.lengths is not None:
        trace = _filled(trace, wanted.lengths, dice)
    return Reading(trace, reading.broken, reading.left_out)


def read_file(path: Path, dice: Dice, form: Format | None, rate_scale: float = 1.0) -> Reading:
    """A whole file, compressed or not.

    Raises:
        click.UsageError: it is not a trace.
    """
    try:
        with opened(path) as lines:
            return read(lines, dice, form, rate_scale)
    except (UnreadableTrace, ValueError, OSError, EOFError, zlib.error) as error:
        raise click.UsageError(f"{path}: {error}") from error


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """The file's text; ``.gz`` is unpacked."""
    opening = gzip.open if path.suffix == ".gz" else open
    with opening(path, "rt", encoding="utf-8", errors="replace") as file:
        yield file


def _filled(trace: Trace, lengths: str, dice: Dice) -> Trace:
    """Lengths for the requests that have none."""
    prompt, _, output = lengths.partition("/")
    if prompt.isdecimal() and output.isdecimal():
        return filled(trace, Independent(Fixed(int(prompt)), Fixed(int(output))), dice)
    path = Path(lengths)
    if not path.is_file():
        raise click.UsageError(f"--lengths {lengths}: neither PROMPT/OUTPUT nor a file")
    with opened(path) as file:
        text = file.read()
    try:
        if text.partition("\n")[0].startswith("field,"):
            return _by_window(trace, servegen.read_lengths(text)[0].by_window(), dice)
        return filled(trace, named_csv.read_lengths(text), dice)
    except (UnreadableTrace, ValueError) as error:
        raise click.UsageError(f"--lengths {lengths}: {error}") from error


def _by_window(trace: Trace, windows: list[tuple[float, Lengths]], dice: Dice) -> Trace:
    """Lengths of the hours in which each request comes."""
    hours = WindowedLengths(windows)
    complete = trace.at(trace.arrived_s)
    pairs = [hours.at(at_s).draw(dice) for at_s in trace.arrived_s]
    complete.prompt_tokens = type(trace.prompt_tokens)("i", [prompt for prompt, _ in pairs])
    complete.output_tokens = type(trace.output_tokens)("i", [output for _, output in pairs])
    return complete
