import pytest

from conformance.worlds import LocalWorld, Observer, StaticWorld, fake_model
from engines.fixtures import tiny_model  # noqa: F401 (a fixture)
from engines.tiny import tiny_spec
from tidegate.adapters.registry import ADAPTERS
from tidegate.backends.local.model import LocalModel


@pytest.fixture(params=["local llama.cpp", "local fake engine", "static"])
async def world(request, tmp_path):
    broken = fake_model("--exit-code", 3, "--say", "no weights here", model="broken")
    if request.param == "static":
        world = StaticWorld(request.getfixturevalue("tiny_model"))
        await world.start()
    elif request.param == "local llama.cpp":
        spec = tiny_spec(request.getfixturevalue("tiny_model"))
        world = LocalWorld(tmp_path, LocalModel("m", ADAPTERS["llamacpp"], spec), broken)
    else:
        world = LocalWorld(tmp_path, fake_model(), broken)
    yield world
    await world.close()


@pytest.fixture
async def fleet(world):
    fleet = world.fleet()
    yield fleet
    await fleet.close()


@pytest.fixture
def observer():
    return Observer()
