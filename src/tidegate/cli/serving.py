"""``tidegate serve``: gateway, controller, backends and the admin page in one process."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click

DEFAULT_FILE = Path("tidegate.yaml")
INTERRUPTED = 130


@click.command("serve", short_help="Serve the models of a policy file.")
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), help="The gateway's port; 0 takes any free one.")
@click.option("--admin-port", type=click.IntRange(0, 65535), help="The admin page's port.")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning"]), default="info", show_default=True
)
def serve_command(file: Path | None, port: int | None, admin_port: int | None, log_level: str) -> None:
    """Serve the models of the policy FILE (./tidegate.yaml when left out).

    Starts engines when requests come, sends each request to the replica that will answer it soonest,
    and stops engines that nobody needs. SIGTERM finishes what is in flight; SIGHUP or a changed file
    reloads the policy.
    """
    from tidegate.cli.service import Service
    from tidegate.config import load
    from tidegate.config.nodes import check_here

    if file is None:
        if not DEFAULT_FILE.exists():
            raise click.UsageError(f"no policy file given and there is no ./{DEFAULT_FILE}; see examples/")
        file = DEFAULT_FILE
    settings = check_here(load(file), str(file))
    ports = {"port": port, "admin_port": admin_port}
    chosen: dict[str, Any] = {name: value for name, value in ports.items() if value is not None}
    settings = dataclasses.replace(settings, gateway=dataclasses.replace(settings.gateway, **chosen))
    set_up_logging(log_level)
    run_to_exit(Service(settings, policy=file, overrides=chosen).run())


def run_to_exit(work: Coroutine[Any, Any, int]) -> None:
    """Run on uvloop where it is installed, a third faster, and exit with what the work returns."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        sys.exit(runner.run(work))


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def set_up_logging(level: str) -> None:
    """One line an event, on standard error."""
    logging.basicConfig(
        level=level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)-7s %(name)s %(message)s"
    )
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
