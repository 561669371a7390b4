"""What the journal writes, the replay reads: on a real disk, with a real event loop."""

import asyncio
import json

import pytest

from tidegate.core.dispatch import Dispatcher
from tidegate.core.events import (
    Failure,
    FirstByte,
    ModelsConfigured,
    ReportDue,
    RequestArrived,
    RouteTableChanged,
    Tick,
    UpstreamEnded,
    UpstreamFailed,
)
from tidegate.core.lifecycle import State
from tidegate.core.settings import DispatchConfig
from tidegate.core.types import Address, ModelRoute, Route, RouteTable
from tidegate.runtime.journal import FileJournal, segments
from tidegate.runtime.replay import JournalError, journal_files, replay


def a_day(journal, *, turns=400):
    """A dispatcher's day: arrivals, answers, failures, ticks and reports, all in the journal."""
    brain = Dispatcher()

    def on(event, now_s):
        journal.turn("dispatch", now_s, event, brain.on(event, now_s))

    on(ModelsConfigured({"m": DispatchConfig()}), 0.1)
    routes = tuple(Route(f"m-{n}", "m", State.SERVING, Address("127.0.0.1", n), 2, "openai") for n in (1, 2))
    on(RouteTableChanged(RouteTable(1, (ModelRoute("m", True),), routes)), 0.2)
    for n in range(turns // 4):
        now_s = 1.0 + n * 0.37
        on(RequestArrived(f"r{n}", "m", 10 * n, 7, 100, now_s + 5.0), now_s)
        on(FirstByte(f"r{n - 1}"), now_s + 0.1)
        if n % 5 == 0:
            on(UpstreamFailed(f"r{n}", Failure.CUT), now_s + 0.2)
        on(UpstreamEnded(f"r{n - 2}", 200, 3, None, 5), now_s + 0.25)
        on(Tick() if n % 2 else ReportDue(), now_s + 0.3)


@pytest.fixture
async def written(tmp_path):
    journal = FileJournal(tmp_path, "20261129T120000", 64 * 1024 * 1024)
    journal.start()
    a_day(journal)
    await asyncio.to_thread(journal.close)
    return tmp_path


async def test_the_same_events_give_the_same_effects_byte_for_byte(written):
    found = replay(journal_files(written))

    assert found.is_faithful
    assert found.turns > 400
    assert found.effects > 150
    assert found.by_event["dispatch.RequestArrived"] == 100


async def test_a_line_that_was_changed_is_found_and_named(written):
    (segment,) = segments(written)
    lines = segment.read_text().splitlines()
    at, text = next((n, text) for n, text in enumerate(lines) if '"Send"' in text)
    lines[at] = text.replace('"attempt":1', '"attempt":2')
    segment.write_text("\n".join(lines) + "\n")

    found = replay(journal_files(segment))

    assert not found.is_faithful
    assert found.differences == 1
    assert found.first[0].source == f"{segment.name}:{at + 1}"
    assert '"attempt":1' in found.first[0].replayed


async def test_a_torn_last_line_is_counted_and_the_rest_still_replays(written):
    (segment,) = segments(written)
    segment.write_bytes(segment.read_bytes()[:-40])

    found = replay(journal_files(written))

    assert (found.unreadable, found.differences) == (1, 0)


async def test_the_journal_keeps_within_its_space_and_drops_the_oldest(tmp_path):
    journal = FileJournal(tmp_path, "20261129T120000", 200_000)
    journal.start()
    for _ in range(10):
        a_day(journal)
        await asyncio.sleep(0)
    await asyncio.to_thread(journal.close)

    kept = segments(tmp_path)
    assert sum(path.stat().st_size for path in kept) <= 260_000
    assert journal.segments_dropped_total > 0
    with pytest.raises(JournalError, match="first segments were dropped"):
        journal_files(tmp_path)


async def test_what_cannot_be_written_in_time_is_counted_in_the_file(tmp_path):
    journal = FileJournal(tmp_path, "20261129T120000", 64 * 1024 * 1024)
    journal._batches.maxsize = 2  # the writer has not started: nothing drains
    a_day(journal, turns=800)
    lost = journal.dropped_total
    assert lost > 0
    journal._batches.maxsize = 0
    journal.start()
    a_day(journal)
    await asyncio.to_thread(journal.close)

    (segment,) = segments(tmp_path)
    gaps = [json.loads(text) for text in segment.read_text().splitlines() if '"missing"' in text]
    assert gaps == [{"missing": lost}]


def test_a_folder_without_a_journal_says_so(tmp_path):
    with pytest.raises(JournalError, match="no journal at"):
        journal_files(tmp_path)


def test_a_file_that_is_no_journal_says_which_line(tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text('{"hello": 1}\n')

    with pytest.raises(JournalError, match=r"other\.jsonl:1 is not a line of a journal"):
        replay(journal_files(other))
