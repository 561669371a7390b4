"""``tidegate demo``: the whole control plane under a day's load in minutes. No GPU, no download."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import tempfile
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.cli.serving import run_to_exit, set_up_logging

if TYPE_CHECKING:
    from tidegate.cli.service import Service

MODEL = "demo"
PEAK_RPS = 6.0
"""Four replicas of eight slots are about busy then, with answers of five seconds."""


@click.command("demo", short_help="An emulated fleet under a day of load.")
@click.option("--port", type=click.IntRange(0, 65535), default=8400, show_default=True)
@click.option("--admin-port", type=click.IntRange(0, 65535), default=8401, show_default=True)
@click.option("--minutes-per-day", type=click.FloatRange(0.5, 1440), default=4.0, show_default=True)
@click.option("--peak-rps", type=click.FloatRange(0.1, 500), default=PEAK_RPS, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning"]), default="info", show_default=True
)
def demo_command(
    port: int, admin_port: int, minutes_per_day: float, peak_rps: float, seed: int, log_level: str
) -> None:
    """An emulated fleet under a daily curve of load, and one address to look at.

    The gateway, both brains and the processes are those of ``tidegate serve``; only the engines are
    emulated.
    """
    set_up_logging(log_level)
    with tempfile.TemporaryDirectory(prefix="tidegate-demo-") as folder:
        run_to_exit(_demo(Path(folder), port, admin_port, minutes_per_day, peak_rps, seed))


async def _demo(
    folder: Path, port: int, admin_port: int, minutes_per_day: float, peak_rps: float, seed: int
) -> int:
    from tidegate.cli.service import Service
    from tidegate.config import parse

    policy = resources.files("tidegate.cli").joinpath("demo.yaml").read_text()
    settings = parse(policy, "the built-in demo policy", base=folder)
    settings = dataclasses.replace(
        settings,
        gateway=dataclasses.replace(settings.gateway, port=port, admin_port=admin_port, stop_deadline_s=5.0),
        state_dir=folder,
        journal_dir=folder / "journal",
    )
    service = Service(settings)
    stop = asyncio.Event()
    load = asyncio.create_task(_load(service, minutes_per_day, peak_rps, seed, stop), name="load")
    try:
        return await service.run()
    finally:
        stop.set()
        load.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await load


async def _load(
    service: Service, minutes_per_day: float, peak_rps: float, seed: int, stop: asyncio.Event
) -> None:
    from tidegate.cli.load import daily_load
    from tidegate.sim.kernel import SeededDice

    await service.ready.wait()
    click.echo(
        f"one day passes in {minutes_per_day:g} minutes, {peak_rps:g} requests/s at its peak", err=True
    )
    await daily_load(
        service.url,
        MODEL,
        minutes_per_day=minutes_per_day,
        peak_rps=peak_rps,
        stop=stop,
        dice=SeededDice(seed),
    )
