"""A page in the system's Chromium. A failed test leaves what it saw in build/browser/."""

import shutil
from pathlib import Path

import pytest
from playwright.async_api import async_playwright

from browser.fake_fleet import FakeFleet
from tidegate.dashboard import AdminServer

SEEN = Path(__file__).parents[2] / "build" / "browser"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    if report.when == "call":
        item.failed = report.failed
    return report


@pytest.fixture
async def chromium():
    async with async_playwright() as playwright:
        # Chromium refuses its sandbox to root, and containers run as root.
        browser = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield browser
        await browser.close()


@pytest.fixture
async def tab(chromium, request):
    """A browser tab; ``tab.said`` is its console, page errors included."""
    page = await chromium.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(10_000)
    page.said = []
    page.on("console", lambda message: page.said.append(message.text))
    page.on("pageerror", lambda error: page.said.append(str(error)))
    yield page
    if getattr(request.node, "failed", False):
        SEEN.mkdir(parents=True, exist_ok=True)
        await page.screenshot(path=SEEN / f"{request.node.name}.png")
    await page.close()


@pytest.fixture
def fleet():
    return FakeFleet()


@pytest.fixture
async def serve(fleet):
    """Starts admin servers over the fleet; all are closed at the end."""
    servers = []

    async def start(port=0):
        server = AdminServer("127.0.0.1", port, fleet=fleet.fleet, metrics_text=bytes, recent=fleet.recent)
        servers.append(server)
        await server.start()
        return server

    yield start
    for server in servers:
        await server.close()
