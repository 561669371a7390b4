"""The default policy on llama.cpp: starts predicted and measured, and a crowd that is met, with the reason of each step."""

from __future__ import annotations

import asyncio
import random
import shutil
from typing import Any

import benchmarks.shown  # noqa: F401  (the stories are the tests' own)
from benchmarks.fleet.frame import OUT, Asked
from engines.tiny import tiny_gguf
from system.catalogue import STORIES, World, tell
from system.stories.flash_crowd import EXPLAINED

STORY = "flash-crowd"
SCALES = {"small": 1.0, "medium": 2.0, "full": 4.0}


def run(asked: Asked) -> dict[str, Any]:
    """Tells the story ``flash-crowd`` of ``tests/system`` at full size."""
    folder = OUT / "fleet-real"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    world = World(folder, tiny_gguf(folder / "tiny.gguf"), random.Random(1))
    figures = asyncio.run(tell(STORY, world, STORIES[STORY].size(SCALES[asked.size])))
    asked.say((folder / EXPLAINED).read_text())
    for figure in figures:
        met = "" if not figure.bound else "  met" if figure.is_met() else "  NOT MET"
        asked.say(f"{figure.what:<64}{figure.value:>9.4g} {figure.unit:<3}{figure.bound:>12}{met}")
    return {"is_met": all(one.is_met() for one in figures), "figures": [one.as_json() for one in figures]}
