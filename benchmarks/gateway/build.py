"""Compiles the engine and the load client when their sources have changed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SOURCES = Path(__file__).parent
FLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra")


class NoCompiler(Exception):
    """gcc is absent."""

    def __init__(self) -> None:
        super().__init__(
            "gcc was not found; the benchmark compiles its load client. On Debian: apt-get install gcc libc6-dev"
        )


def compiler() -> str:
    found = shutil.which("gcc")
    if found is None:
        raise NoCompiler
    return found


def compile_program(name: str, folder: Path) -> Path:
    """The program's path; compiled again only when a source is newer."""
    program = folder / name
    newest = max(path.stat().st_mtime for pattern in ("*.c", "*.h") for path in SOURCES.glob(pattern))
    if not program.exists() or program.stat().st_mtime < newest:
        gcc = compiler()
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([gcc, *FLAGS, "-o", str(program), str(SOURCES / f"{name}.c")], check=True)
    return program
