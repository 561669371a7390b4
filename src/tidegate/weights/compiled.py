"""Where engines keep what they have compiled, so that the next start on the like machine finds it.

What was compiled for one GPU, CUDA or compiler is of no use to another, and at worst is used. So the folder
is named after all of them. Within it engines keep models and settings apart by themselves: vLLM by a hash of
its configuration and the model's code, Triton and Inductor by one of the source.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate.adapters.base import CompileCache
from tidegate.weights.pins import Pin
from tidegate.weights.store import Store

_ASK_WITHIN_S = 20.0
"""A cold Python on a slow network disk."""
_ABOUT = "about.json"
_READY = "ready"

_VERSIONS = """
import importlib.metadata, importlib.util, json, pathlib, re, sys
found = {"python": sys.version.split()[0]}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
spec = importlib.util.find_spec("torch")
if spec is not None and spec.origin:
    # Its version file is read and not imported: importing torch takes seconds.
    text = (pathlib.Path(spec.origin).parent / "version.py").read_text()
    cuda = re.search(r"^cuda\\b[^=]*= *'([^']+)'", text, re.MULTILINE)
    if cuda:
        found["cuda"] = cuda[1]
print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True)
class Compiled:
    """The folder for one replica's engine."""

    pin: Pin
    mark: Path
    """There once such an engine has become ready with this folder."""

    @property
    def is_hit(self) -> bool:
        """Such an engine has compiled here before."""
        return self.mark.exists()

    def note_ready(self) -> None:
        """It has compiled all that it needs for its first token."""
        self.mark.parent.mkdir(exist_ok=True)
        self.mark.touch()


class CompileCaches:
    """Finds the folder for an engine. What machine and packages are is asked once."""

    def __init__(self) -> None:
        self._gpus: list[str] | None = None
        self._versions: dict[tuple[str, float, tuple[str, ...]], dict[str, str]] = {}

    async def folder(
        self,
        store: Store,
        cache: CompileCache,
        argv: Sequence[str],
        environ: Mapping[str, str],
        gpus: Sequence[int],
        command_hash: str,
    ) -> Compiled | None:
        """The folder, kept while its pin lives; None when it cannot be said what the engine is made of.

        Args:
            store: Where it is.
            cache: What the adapter knows.
            argv: The command; its first word is the engine's program.
            environ: The engine's own.
            gpus: Those it is given.
            command_hash: Of what it is started with.
        """
        versions = await self._versions_of(argv[0], cache.packages, environ)
        if versions is None or not any(name in versions for name in cache.packages):
            return None
        about = {"gpu": await self._kind_of(gpus), **versions}
        text = json.dumps(about, sort_keys=True)
        pin = await asyncio.to_thread(store.compiled, hashlib.sha256(text.encode()).hexdigest()[:32])
        (pin.path / _ABOUT).write_text(text + "\n", encoding="utf-8")
        return Compiled(pin, pin.path / _READY / command_hash)

    async def _versions_of(
        self, program: str, packages: tuple[str, ...], environ: Mapping[str, str]
    ) -> dict[str, str] | None:
        python = await asyncio.to_thread(_python_behind, program, environ.get("PATH"))
        if python is None:
            return None
        # A package that is installed anew changes its folder, and with it the time of the one above.
        key = (str(python), _changed_at(python), packages)
        if key not in self._versions:
            answer = await _asked([str(python), "-c", _VERSIONS, *packages], environ)
            try:
                self._versions[key] = json.loads(answer or "")
            except ValueError:
                return None
        return self._versions[key]

    async def _kind_of(self, gpus: Sequence[int]) -> str:
        if not gpus:
            return f"cpu {os.uname().machine}"
        if self._gpus is None:
            query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
            self._gpus = (await _asked(query, os.environ) or "").splitlines()
        kinds = {self._gpus[index].strip() for index in gpus if index < len(self._gpus)}
        return " + ".join(sorted(kinds)) or "unknown gpu"


def environment(cache: CompileCache, folder: Path) -> dict[str, str]:
    """What the engine is told, beside and before what the operator tells it."""
    return {**{name: str(folder / part) for name, part in cache.folders.items()}, **cache.switches}


def _python_behind(program: str, path: str | None) -> Path | None:
    """The interpreter that runs the program: itself, or the one that its first line names."""
    found = shutil.which(program, path=path)
    if found is None:
        return None
    if Path(found).name.startswith("python"):
        return Path(found)
    try:
        with Path(found).open("rb") as file:
            first = file.readline(1024)
    except OSError:
        return None
    words = first.removeprefix(b"#!").decode("utf-8", "replace").split()
    if not first.startswith(b"#!") or not words:
        return None
    if Path(words[0]).name == "env" and len(words) > 1:
        words = [shutil.which(words[1], path=path) or ""]
    python = Path(words[0])
    return python if python.name.startswith("python") else None


def _changed_at(python: Path) -> float:
    packages = sorted(python.parent.parent.glob("lib/python*/site-packages"))
    return max((folder.stat().st_mtime for folder in packages), default=0.0)


async def _asked(argv: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """What a short command prints; None when it fails."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=dict(environ),
        )
    except OSError:
        return None
    try:
        async with asyncio.timeout(_ASK_WITHIN_S):
            answer, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return None
    return answer.decode("utf-8", "replace") if process.returncode == 0 else None
