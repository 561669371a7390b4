"""Tidegate as it is measured: the defaults of production, and two engines that someone else runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from benchmarks.gateway.bodies import MODEL
from benchmarks.gateway.gateways import Gateway, Launch, Place
from benchmarks.gateway.machine import first_line

NAME = "tidegate"
BY_TOKENS = "tidegate-least_tokens"
"""The same without a look at prompts' beginnings or at predicted seconds: what those cost is the difference."""
SLOTS_PER_ENGINE = 1024
"""More than any scenario opens, so that nothing waits in the queue; every request still passes through it."""


def policy(place: Place, **settings: Any) -> dict[str, Any]:
    """The policy file. Ledger, queue, routing, metrics and journal are on, as they are unless switched off."""
    model = {"engine": "openai", "static": place.engine_urls, "slots": SLOTS_PER_ENGINE, **settings}
    return {
        "gateway": {"port": place.port, "admin_port": place.spare_port},
        "fleet": {"state_dir": str(place.folder / "state")},
        "models": {MODEL: model},
    }


def gateway(policy_file: Path, name: str = NAME, **settings: Any) -> Gateway:
    """Tidegate from this environment; the policy file is rewritten at each start."""
    program = str(Path(sys.executable).with_name("tidegate"))

    def launch(place: Place) -> Launch:
        policy_file.write_text(yaml.safe_dump(policy(place, **settings), sort_keys=False))
        return Launch([program, "serve", str(policy_file)])

    return Gateway(name, launch, version=lambda: first_line(program, "--version").rpartition(" ")[2])
