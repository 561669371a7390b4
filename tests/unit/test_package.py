import asyncio
import socket
import time
import tomllib
from pathlib import Path

import pytest

import tidegate

ROOT = Path(__file__).parents[2]


def test_the_version_is_the_one_in_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert tidegate.__version__ == project["version"]


def test_every_dependency_has_its_line_in_the_docs():
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project, groups = pyproject["project"], pyproject["dependency-groups"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *groups["dev"], *(line for extra in extras for line in extra)]
    told = (ROOT / "docs/dependencies.md").read_text().lower()

    missing = [name for line in wanted if f"| {(name := line.split('>=')[0])} |" not in told]

    assert not missing


def test_a_pure_test_cannot_open_a_socket_or_sleep():
    with pytest.raises(RuntimeError, match="move it to tests/integration"):
        socket.socket()
    with pytest.raises(RuntimeError, match="move it to tests/integration"):
        time.sleep(0)


async def test_a_pure_test_may_still_run_an_event_loop():
    await asyncio.sleep(0)


def test_a_plain_test_may_run_a_loop_of_its_own():
    asyncio.run(asyncio.sleep(0))
