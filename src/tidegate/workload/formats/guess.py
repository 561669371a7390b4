"""Which format a file has, told from its first row; when that is not clear, an error lists them all."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from itertools import chain, islice

from tidegate.workload.arrival import BadValue
from tidegate.workload.formats.fields import OUTPUT_NAMES, PROMPT_NAMES, first_of, parsed
from tidegate.workload.formats.jsonl import ABSOLUTE_NS, RELATIVE_S
from tidegate.workload.formats.named_csv import ARRIVED_NAMES
from tidegate.workload.formats.reading import Header, Source, UnreadableTrace, numbered


class Format(Enum):
    """A format of traces, by the name that ``--format`` takes."""

    AZURE_LLM = "azure-llm"
    MOONCAKE = "mooncake"
    SERVEGEN_RATE = "servegen-rate"
    AZURE_FUNCTIONS = "azure-functions"
    BURSTGPT = "burstgpt"
    JSONL = "jsonl"
    CSV = "csv"
    GATEWAY_LOG = "gateway-log"


LOOKS: dict[Format, str] = {
    Format.AZURE_LLM: "CSV with TIMESTAMP, ContextTokens, GeneratedTokens",
    Format.MOONCAKE: "JSON lines with timestamp (ms), input_length, output_length, hash_ids",
    Format.SERVEGEN_RATE: "CSV with ts_s, rate_rps",
    Format.AZURE_FUNCTIONS: "CSV with HashOwner, HashApp, HashFunction, Trigger and minutes, or app, func, end_timestamp, duration",
    Format.BURSTGPT: "CSV with Timestamp, Model, Request tokens, Response tokens",
    Format.JSONL: "JSON lines with arrived_s, arrival_time or timestamp, and token counts; or aiperf's records",
    Format.CSV: "CSV with arrived_s, prompt_tokens, output_tokens",
    Format.GATEWAY_LOG: "JSON lines of Tidegate's request log, with arrived_s, outcome, prompt_tokens",
}

_CSV_COLUMNS: tuple[tuple[Format, tuple[str, ...]], ...] = (
    (Format.AZURE_LLM, ("TIMESTAMP", "ContextTokens", "GeneratedTokens")),
    (Format.BURSTGPT, ("Timestamp", "Request tokens", "Response tokens")),
    (Format.AZURE_FUNCTIONS, ("HashOwner", "HashApp", "HashFunction", "Trigger")),
    (Format.AZURE_FUNCTIONS, ("app", "func", "end_timestamp", "duration")),
)


def peeked(source: Source) -> tuple[list[str], Iterable[str]]:
    """The first few lines, and all of them again: the source may be a stream that is read once."""
    lines = iter(source.split("\n") if isinstance(source, str) else source)
    first = list(islice(lines, 20))
    return first, chain(first, lines)


def guessed(first_lines: list[str]) -> Format:
    """The one format that these lines can be of, or UnreadableTrace."""
    rows = list(numbered(first_lines))
    if not rows:
        raise UnreadableTrace("the file is empty")
    looks_like_json = rows[0][1].lstrip().startswith("{")
    found = _of_json([row for _, row in rows]) if looks_like_json else _of_header(rows[0][1])
    if found is None:
        listed = "\n".join(f"  {known.value}: {look}" for known, look in LOOKS.items())
        message = f"the format is not clear from {rows[0][1][:80]!r}; name one of\n{listed}"
        raise UnreadableTrace(message)
    return found


def _of_header(row: str) -> Format | None:
    try:
        header = Header(row)
    except BadValue:
        return None
    for known, columns in _CSV_COLUMNS:
        if all(column in header for column in columns):
            return known
    if {name.lower() for name in header.names} == {"ts_s", "rate_rps"}:
        return Format.SERVEGEN_RATE
    if all(any(name in header for name in names) for names in (ARRIVED_NAMES, PROMPT_NAMES, OUTPUT_NAMES)):
        return Format.CSV
    return None


def _of_json(rows: list[str]) -> Format | None:
    """Told from the first row that is sound: a broken one at the top must not hide the rest."""
    for row in rows:
        try:
            line = parsed(row)
        except BadValue:
            continue
        if {"arrived_s", "outcome", "prompt_tokens"} <= line.keys():
            return Format.GATEWAY_LOG
        if {"timestamp", "input_length", "output_length"} <= line.keys():
            return Format.MOONCAKE
        if {"metadata", "metrics"} <= line.keys():
            return Format.JSONL
        wanted = ((*RELATIVE_S, *ABSOLUTE_NS), PROMPT_NAMES, OUTPUT_NAMES)
        if all(first_of(line, names) is not None for names in wanted):
            return Format.JSONL
    return None
