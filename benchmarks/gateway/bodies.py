"""The requests: chat bodies of a given size, half of each a shared system prompt, half its own.

So a router that looks at prefixes meets known and new ones. The messages come first, as OpenAI's client writes them.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODEL = "fake-model"
BODIES_OF_EACH_KIND = 64
CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of request; ``pace_us`` is None for an answer in one piece."""

    name: str
    size_bytes: int
    pace_us: int | None = None
    chunks: int = 100


def _prose(dice: random.Random, length: int) -> str:
    """Words of one to three syllables, cut to the length."""
    words: list[str] = []
    written = 0
    while written <= length:  # the last space that is counted is not written
        syllables = dice.randint(1, 3)
        word = "".join(dice.choice(CONSONANTS) + dice.choice(VOWELS) for _ in range(syllables))
        words.append(word)
        written += len(word) + 1
    return " ".join(words)[:length]


def _body(kind: Kind, system: str, user: str) -> str:
    fields: dict[str, Any] = {
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
        "model": MODEL,
        "max_tokens": kind.chunks,
        "temperature": 0.7,
    }
    if kind.pace_us is not None:
        fields |= {"seed": kind.pace_us, "stream": True}
    return json.dumps(fields, separators=(",", ":"))


def bodies(kind: Kind, seed: int) -> list[str]:
    """Bodies of exactly the kind's size; the same for the same seed."""
    dice = random.Random(f"{seed}/{kind.name}")
    system = _prose(dice, kind.size_bytes // 2)
    rest = kind.size_bytes - len(_body(kind, system, ""))
    return [_body(kind, system, _prose(dice, rest)) for _ in range(BODIES_OF_EACH_KIND)]


def write_bodies(folder: Path, kind: Kind, seed: int) -> Path:
    """One body a line, as the load client reads them."""
    path = folder / f"{kind.name}.jsonl"
    path.write_text("".join(f"{body}\n" for body in bodies(kind, seed)))
    return path
