"""Laws of readers: they invert the writers, and a broken row is the only one that is lost."""

import datetime as dt
import json
from contextlib import suppress

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from dice import SeededDice
from tidegate.workload.arrival import Arrival, BadValue
from tidegate.workload.builder import TraceBuilder
from tidegate.workload.formats import Format, UnreadableTrace, mooncake, named_csv, read
from tidegate.workload.formats.reading import real, whole
from tidegate.workload.formats.timestamps import NS, parsed_ns

AZURE = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
AZURE += [f"2023-11-16 18:15:{second:02}.6805900,{second + 7},{second}" for second in range(6)]
BURST = ["Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"]
BURST += [f"{number * 5},GPT-4,{number + 40},{number},{2 * number + 40},API log" for number in range(6)]
CSV = ["arrived_s,prompt_tokens,output_tokens,model,tenant,prefix_hashes"]
CSV += [f'{number * 0.5},{number},3,"a, ""b""",t{number},1 {number}' for number in range(6)]
MOONCAKE = [
    json.dumps({"timestamp": 500 * n, "input_length": 700 + n, "output_length": n, "hash_ids": [0, n]})
    for n in range(6)
]
JSONL = [
    json.dumps({"arrival_time": 1_787_267_980.25 + n, "input_toks": 10 + n, "output_toks": n, "model": "m"})
    for n in range(6)
]
LOG = [
    json.dumps(
        {"arrived_s": 100.0 + n, "outcome": "completed", "prompt_tokens": n, "output_tokens": 2, "flow": "a"}
    )
    for n in range(6)
]
MINUTES = ["HashOwner,HashApp,HashFunction,Trigger,1,2,3", "o,a,f,http,1,0,2", "o,a,g,timer,0,0,1"]
CALLS = ["app,func,end_timestamp,duration", "a,f,10.5,1.5", "a,g,20.25,2.25"]
RATES = ["ts_s,rate_rps", "0,0.01", "600,0.02", "1200,0.01"]
FILES = {
    "azure-llm": AZURE,
    "burstgpt": BURST,
    "csv": CSV,
    "mooncake": MOONCAKE,
    "jsonl": JSONL,
    "gateway-log": LOG,
    "azure-functions": MINUTES,
    "calls": CALLS,
    "servegen-rate": RATES,
}
HEADER_LINES = {"mooncake": 0, "jsonl": 0, "gateway-log": 0}

names = st.none() | st.text(min_size=1, max_size=8).filter(
    lambda text: text == text.strip() and "\n" not in text and "\r" not in text
)
counts = st.none() | st.integers(0, 2**31 - 1)
arrivals = st.builds(
    Arrival,
    arrived_s=st.floats(0, 1e7),
    prompt_tokens=counts,
    output_tokens=counts,
    model=names,
    tenant=names,
    priority=st.integers(-5, 5),
    adapter=names,
    session=names,
    prefix_hashes=st.lists(st.integers(0, 2**64 - 1), max_size=4).map(tuple),
    cached_tokens=counts,
    deadline_s=st.none() | st.floats(1e-3, 1e6),
)
known = st.integers(0, 2**31 - 1)
lengths_only = st.builds(
    Arrival,
    arrived_s=st.floats(0, 1e7),
    prompt_tokens=known,
    output_tokens=known,
    session=names,
    prefix_hashes=st.lists(st.integers(0, 2**64 - 1), max_size=4).map(tuple),
)
junk = st.text(max_size=30) | st.text(alphabet='0123456789.,-" eNa{}[]:', max_size=30) | st.just("[" * 50_000)


def traced(arrivals):
    builder = TraceBuilder()
    for arrival in arrivals:
        builder.append(arrival)
    return builder.build()


@given(st.lists(arrivals, max_size=8))
@example([Arrival(0.0, 1, 2, model='a,"b"', tenant="ü x", session="'")])
def test_our_csv_gives_back_what_was_written(rows):
    trace = traced(rows)
    reading = named_csv.read(named_csv.lines(trace))

    assert len(reading.broken) == 0
    assert reading.trace == trace
    assert named_csv.read("".join(named_csv.lines(trace))).trace == trace


@given(st.lists(lengths_only, max_size=8))
def test_mooncakes_form_gives_back_what_was_written_to_the_microsecond(rows):
    trace = traced(rows)
    back = mooncake.read(mooncake.lines(trace)).trace

    assert all(
        abs(mine - theirs) < 1e-6 for mine, theirs in zip(back.arrived_s, trace.arrived_s, strict=True)
    )
    assert back.at(trace.arrived_s) == trace


@pytest.mark.parametrize("name", FILES)
@given(row=junk, data=st.data())
def test_a_broken_row_changes_no_other(name, row, data):
    lines = FILES[name]
    place = data.draw(st.integers(HEADER_LINES.get(name, 1), len(lines)))
    form = Format.AZURE_FUNCTIONS if name == "calls" else Format(name)
    alone = read([*lines[: HEADER_LINES.get(name, 1)], row], SeededDice(1), form)
    assume(len(alone.broken) or not row.strip())  # a row of chance may be sound
    reading = read([*lines[:place], row, *lines[place:]], SeededDice(1), form)

    assert list(reading.broken.lines) == ([place + 1] if row.strip() else [])
    assert reading.trace == read(lines, SeededDice(1), form).trace


@pytest.mark.parametrize("name", FILES)
def test_each_form_is_recognised_from_a_stream_that_is_read_once(name):
    form = Format.AZURE_FUNCTIONS if name == "calls" else Format(name)

    guessed = read(iter(FILES[name]), SeededDice(1))
    assert guessed.trace == read("\r\n".join(FILES[name]), SeededDice(1), form).trace
    assert len(guessed.trace)


@given(st.lists(junk, max_size=5), st.none() | st.sampled_from(Format))
def test_any_text_is_read_or_refused_as_unreadable(lines, form):
    with suppress(UnreadableTrace):
        read(lines, SeededDice(0), form)


@given(st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)))  # noqa: DTZ001 - read as UTC
def test_time_stamps_agree_with_the_calendar(moment):
    since = moment - dt.datetime(1970, 1, 1)  # noqa: DTZ001
    expected = (since.days * 86_400 + since.seconds) * NS + since.microseconds * 1_000

    assert parsed_ns(moment.isoformat(" ")) == expected
    assert parsed_ns(moment.isoformat("T") + "Z") == expected


@given(st.datetimes(dt.datetime(1970, 1, 3), timezones=st.timezones()))  # noqa: DTZ001
def test_time_stamps_with_a_zone_are_the_same_moment(moment):
    offset = moment.utcoffset()
    assume(offset.seconds % 60 == 0)
    since = moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

    assert parsed_ns(moment.isoformat()) == since // dt.timedelta(microseconds=1) * 1_000


@given(st.text(max_size=12) | st.from_regex(r"[-+_0-9.eE ]{1,12}", fullmatch=True))
def test_a_cell_is_a_plain_number_or_broken(cell):
    try:
        number = whole(cell, "cell")
    except BadValue:
        return
    assert number == float(cell) == real(cell, "cell")
    assert "_" not in cell
