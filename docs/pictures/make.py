"""Takes the picture of the dashboard that the README shows: ``python docs/pictures/make.py``.

It starts ``tidegate demo`` on free ports, waits for the flash crowd of the second day, and photographs the
page with the system's Chromium. ``--serve FILE`` shows a real fleet instead, under load from this script.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
from playwright.async_api import async_playwright

HERE = Path(__file__).parent
MAX_BYTES = 300_000
SIZE = {"width": 1280, "height": 610}
ADDRESS = re.compile(r"(gateway ready|dashboard) on (http://\S+)")


@contextlib.asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[dict[str, str]]:
    """Tidegate on free ports, with the two addresses that it prints."""
    command = (sys.executable, "-m", "tidegate", *arguments, "--port", "0", "--admin-port", "0")
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    told: dict[str, str] = {}
    while len(told) < 2:
        line = (await process.stderr.readline()).decode()
        if not line:
            raise SystemExit(f"tidegate {arguments[0]} ended before it was ready")
        told |= dict(ADDRESS.findall(line))
    drain = asyncio.create_task(process.stderr.read())
    try:
        yield told
    finally:
        process.terminate()
        await process.wait()
        drain.cancel()


async def clients(gateway: str, model: str, wave: tuple[int, ...], period_s: float) -> None:
    """As many clients at a time as the wave says, each asking again as soon as it is answered."""

    async def one(session: aiohttp.ClientSession) -> None:
        body = {"model": model, "stream": True, "max_tokens": 48}
        body["messages"] = [{"role": "user", "content": "Tell me about the tide."}]
        while True:
            async with session.post(f"{gateway}/v1/chat/completions", json=body) as answer:
                await answer.read()

    async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
        asking: list[asyncio.Task[None]] = []
        for count in wave:
            while len(asking) < count:
                asking.append(group.create_task(one(session)))
            while len(asking) > count:
                asking.pop().cancel()
            await asyncio.sleep(period_s)


async def first_model(gateway: str) -> str:
    """The name of one model that is served there."""
    async with aiohttp.ClientSession() as session, session.get(f"{gateway}/v1/models") as answer:
        return str((await answer.json())["data"][0]["id"])


async def photograph(page_url: str, after_s: float, path: Path) -> None:
    """The page as a person sees it who has had it open for a while."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = await browser.new_page(viewport=SIZE, color_scheme="light")
        await page.goto(page_url)
        await asyncio.sleep(after_s)
        await page.screenshot(path=path)
        await browser.close()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--serve", metavar="FILE", help="a policy file to serve in place of the demo")
    parser.add_argument("--after", type=float, default=231.0, metavar="S", help="seconds of load before it")
    parser.add_argument("--out", type=Path, default=HERE / "dashboard.png")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        if options.serve is None:
            arguments = ["demo", "--minutes-per-day", "3"]
        else:
            policy = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "policy.yaml"
            state = f"\nfleet: {{state_dir: {json.dumps(str(policy.parent / 'state'))}}}\n"
            policy.write_text(Path(options.serve).read_text() + state)
            arguments = ["serve", str(policy)]
        async with running(*arguments) as told:
            load = None
            if options.serve is not None:
                model = await first_model(told["gateway ready"])
                wave = (1, 4, 9, 14, 20, 30, 28, 17, 12, 19, 26)
                load = asyncio.create_task(
                    clients(told["gateway ready"], model, wave, options.after / len(wave))
                )
            await photograph(told["dashboard"], options.after, options.out)
            if load is not None:
                load.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await load
    size = options.out.stat().st_size
    sys.stdout.write(f"{options.out.name}: {size} bytes\n")
    if size > MAX_BYTES:
        raise SystemExit(f"a picture may have {MAX_BYTES} bytes")


if __name__ == "__main__":
    asyncio.run(main())
