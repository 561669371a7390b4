"""What all tests share. Ready-made worlds belong to the folder that needs them."""

import asyncio
import os
import shutil
import socket
import time

import pytest
from hypothesis import settings

# A busy machine is not a failing law. In CI the examples are the same in each run; at a desk they differ.
settings.register_profile("tidegate", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("tidegate")


def pytest_configure():
    # Otherwise the async plugins' get_event_loop() makes a loop for a plain test that nobody closes.
    asyncio.set_event_loop(None)


def pytest_addoption(parser):
    parser.addoption("--golden-accept", action="store_true", help="rewrite the golden records")


def pytest_collection_modifyitems(items):
    if shutil.which("chromium") is None:
        for item in items:
            if item.get_closest_marker("browser"):
                item.add_marker(pytest.mark.skip(reason="needs Chromium: apt-get install chromium"))


@pytest.fixture(scope="session")
def golden_accept(request):
    """True when the records are to be rewritten rather than compared."""
    return request.config.getoption("--golden-accept")


@pytest.fixture
def no_real_world(monkeypatch):
    """Sockets and sleeping raise. An event loop still works: its wake-up pair comes from descriptors that exist."""

    def refuse(*args, **kwargs):
        message = "a pure test reached for the real world; move it to tests/integration"
        raise RuntimeError(message)

    class Socket(socket.socket):
        def __init__(self, family=-1, type=-1, proto=-1, fileno=None):  # noqa: A002
            if fileno is None:
                refuse()
            super().__init__(family, type, proto, fileno)

    monkeypatch.setattr(socket, "socket", Socket)
    monkeypatch.setattr(time, "sleep", refuse)
