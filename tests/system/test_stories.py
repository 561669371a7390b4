"""The whole product, told small; at full size in ``make test-all`` and ``make bench-shown``.

Times are figures of the demonstration. Here, beside whatever else the machine does, they may take many times as
long; counts may not be off by one.
"""

import random

import pytest

from system.catalogue import STORIES, World, tell

STRETCH = 10.0


async def hold(name, size, folder, weights):
    figures = await tell(name, World(folder, weights, random.Random(1)), size)
    broken = [str(figure) for figure in figures if not figure.is_met(STRETCH)]
    assert not broken, broken


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", [name for name, story in STORIES.items() if story.is_quick])
async def test_story(name, tmp_path, tiny_model):
    await hold(name, STORIES[name].small, tmp_path, tiny_model)


@pytest.mark.slow  # The sizes of the demonstration take about a minute each.
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", STORIES)
async def test_story_at_full_size(name, tmp_path, tiny_model):
    await hold(name, STORIES[name].full, tmp_path, tiny_model)
