"""What the journal writes, the replay reads: on a real disk, with a real event loop."""

import asyncio
import dataclasses
import io
import json

import msgspec
import pytest

from tidegate.core.dispatch import Dispatcher
from tidegate.core.events import (
    Failure,
    FirstByte,
    FleetConfigured,
    ModelsConfigured,
    ReportDue,
    RequestArrived,
    RouteTableChanged,
    Tick,
    UpstreamEnded,
    UpstreamFailed,
)
from tidegate.core.lifecycle import State
from tidegate.core.scaling_settings import Scaling
from tidegate.core.settings import DispatchConfig, FleetLimits, FleetModel
from tidegate.core.types import Address, ModelRoute, Route, RouteTable
from tidegate.runtime.journal import FileJournal, line
from tidegate.runtime.replay import JournalError, journal_files, replay
from tidegate.runtime.segments import append, segments


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
    journal._batches.maxsize = 1_000
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


@pytest.mark.parametrize("text", ['{"hello": 1}', "[1, 2]", '{"missing": "many"}'])
def test_whatever_else_a_line_may_be_it_is_named(tmp_path, text):
    other = tmp_path / "other.jsonl"
    other.write_text(text + "\n")

    with pytest.raises(JournalError, match=r"other\.jsonl:1 is not a line of a journal"):
        replay(journal_files(other))


@pytest.mark.parametrize(
    "event, says",
    [
        ({"Vanished": {}}, "there is no event 'Vanished'"),
        ({}, "there is no event ''"),
        ({"FirstByte": {"name": 1}}, "this version reads FirstByte otherwise"),
    ],
)
def test_an_event_of_another_version_says_so(tmp_path, event, says):
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({"t": 1.0, "brain": "dispatch", "event": event, "effects": []}) + "\n")

    with pytest.raises(JournalError, match=says):
        replay(journal_files(other))


class FullDisk(io.FileIO):
    """Takes forty bytes more, then nothing."""

    def write(self, data):
        room = 100 - self.tell()
        if room <= 0:
            raise OSError(28, "No space left on device")
        return super().write(bytes(data)[:40][:room])


def test_what_a_full_disk_cut_off_is_taken_back_and_the_rest_is_whole(tmp_path):
    with FullDisk(tmp_path / "full", "wb") as file:
        assert append(file, b"a" * 59 + b"\n")  # in two writes
        assert not append(file, b"b" * 79 + b"\n")
        assert append(file, b"c" * 9 + b"\n")

    assert (tmp_path / "full").read_bytes() == b"a" * 59 + b"\n" + b"c" * 9 + b"\n"


async def test_many_short_runs_keep_within_the_space_too(tmp_path):
    for run in range(40):
        journal = FileJournal(tmp_path, f"20261129T12{run:04d}", 80_000)
        journal.start()
        a_day(journal, turns=40)
        await asyncio.to_thread(journal.close)

    assert sum(path.stat().st_size for path in segments(tmp_path)) <= 90_000


def test_every_setting_of_scaling_is_written_so_a_default_may_change_and_an_old_day_stays_as_it_was():
    event = FleetConfigured({"m": FleetModel("vllm")}, FleetLimits())

    written = json.loads(msgspec.json.encode(line("fleet", 0.0, event, [])))

    scaling = written["event"]["FleetConfigured"]["models"]["m"]["scaling"]
    assert set(scaling) == {field.name for field in dataclasses.fields(Scaling)}
    assert scaling["policy"] == Scaling().policy.value


async def test_a_journal_that_is_not_begun_writes_nothing_and_what_came_before_stands_behind_its_head(
    tmp_path,
):
    refused = FileJournal(tmp_path / "journal", "20261129T120000", 64 * 1024 * 1024)
    a_day(refused)
    await asyncio.to_thread(refused.close)
    assert list(tmp_path.iterdir()) == []

    held = FileJournal(tmp_path / "journal", "20261129T120001", 64 * 1024 * 1024)
    a_day(held)
    held.start()
    await asyncio.to_thread(held.close)
    found = replay(journal_files(tmp_path / "journal"))
    assert found.is_faithful
    assert found.turns > 400
