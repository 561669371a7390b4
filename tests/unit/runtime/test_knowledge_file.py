"""The file with what was learned: written in a thread, at once after a measured start, and read without ever failing."""

import asyncio

import msgspec
import pytest

from tidegate.core.knowledge import FleetKnowledge, KnownStarts
from tidegate.core.tiers import Tier
from tidegate.core.types import ModelId
from tidegate.runtime.knowledge import EVERY_S, VERSION, Kept, KnowledgeFile

STARTS = (KnownStarts(ModelId("m"), Tier.COLD, "", (45.0, 50.0), (("starting", (44.0, 49.0)),)),)
KEPT = Kept(FleetKnowledge(1_000.0, (), STARTS), ())


async def test_what_was_written_is_read(tmp_path):
    await KnowledgeFile(tmp_path / "state").close(lambda: KEPT)

    assert KnowledgeFile(tmp_path / "state").read() == KEPT
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == ["knowledge.json"]


async def test_each_field_of_what_is_known_is_in_the_file(tmp_path):
    await KnowledgeFile(tmp_path).close(lambda: KEPT)

    assert (tmp_path / "knowledge.json").read_bytes() == msgspec.json.encode(
        {"fleet": KEPT.fleet, "capacities": KEPT.capacities, "version": VERSION}
    )


async def test_it_is_written_now_and_then_and_at_once_after_a_start(tmp_path):
    file, looks = KnowledgeFile(tmp_path), []

    def look():
        looks.append(now_s)
        return KEPT

    for now_s in range(0, 700, 10):
        file.keep(look, lessons=int(now_s >= 50), now_s=float(now_s))
        while any(task.get_name() == "knowledge" for task in asyncio.all_tasks()):
            await asyncio.sleep(0)

    assert looks == [50, 50 + EVERY_S, 50 + 2 * EVERY_S]
    assert file.read() == KEPT


@pytest.mark.parametrize(
    "content, why",
    [
        (b"{", "truncated"),
        (b"\xff\xfe", "malformed"),
        (b"[]", "Expected `object`"),
        (b'{"fleet": {"at_s": "yesterday"}, "capacities": []}', "Expected `float`"),
        (b'{"fleet": {"at_s": NaN}, "capacities": []}', "malformed"),
        (
            msgspec.json.encode(KEPT).replace(b'"version":1', b'"version":2'),
            f"of version 2, and {VERSION} is known",
        ),
    ],
)
def test_a_file_that_is_of_no_use_is_said_to_be_and_nothing_is_known(tmp_path, caplog, content, why):
    (tmp_path / "knowledge.json").write_bytes(content)

    assert KnowledgeFile(tmp_path).read() is None
    assert why in caplog.text
    assert "what was learned before is not known" in caplog.text


def test_no_file_is_nothing_known_and_nothing_to_say(tmp_path, caplog):
    assert KnowledgeFile(tmp_path).read() is None
    assert not caplog.records


async def test_a_folder_that_cannot_be_written_to_stops_nothing(tmp_path, caplog):
    (tmp_path / "state").write_text("a file where the folder should be")

    await KnowledgeFile(tmp_path / "state").close(lambda: KEPT)

    assert "cannot be written" in caplog.text
