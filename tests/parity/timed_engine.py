"""The emulated engine with a stopwatch: ``python timed_engine.py --notes FOLDER EMULATOR-OPTIONS``.

For each answer that is complete it writes what the engine model itself says, on its own clock and not on the
wall's: prompt tokens, tokens of the answer, and when it was queued, gave its first token and ended.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tidegate.emulator import server
from tidegate.emulator.__main__ import main as emulate
from tidegate.emulator.meters import Meters
from tidegate.engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Timed:
    """One answer on the engine's clock."""

    prompt_tokens: int
    output_tokens: int
    queued_s: float
    first_token_s: float
    finished_s: float

    @property
    def ttft_s(self) -> float:
        return self.first_token_s - self.queued_s

    @property
    def e2e_s(self) -> float:
        return self.finished_s - self.queued_s


def answers(folder: Path) -> Iterator[Timed]:
    """What all engines wrote."""
    for path in sorted(folder.glob("*.timed")):
        for line in path.read_text().splitlines():
            prompt, output, *moments = line.split()
            yield Timed(int(prompt), int(output), *map(float, moments))


def command(folder: Path, *options: str) -> list[str]:
    """For ``command`` in a policy file."""
    ours = [sys.executable, str(Path(__file__).resolve()), "--notes", str(folder)]
    return [*ours, "--model", "{model}", "--port", "{port}", "--max-sequences", "{slots}", *options]


def _timing(folder: Path) -> type[Meters]:
    folder.mkdir(parents=True, exist_ok=True)
    notes = (folder / f"{os.getpid()}.timed").open("w", buffering=1)

    class TimingMeters(Meters):
        def ended(self, sequence: Sequence, finish_reason: str) -> None:
            super().ended(sequence, finish_reason)
            moments = f"{sequence.queued_s!r} {sequence.first_token_s!r} {sequence.finished_s!r}"
            notes.write(f"{sequence.prompt_tokens} {sequence.output_tokens} {moments}\n")

    return TimingMeters


def main() -> int:
    """Serve as the command line says."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--notes", type=Path, required=True)
    ours, options = parser.parse_known_args()
    server.Meters = _timing(ours.notes)  # type: ignore[attr-defined]
    return emulate(options)


if __name__ == "__main__":
    sys.exit(main())
