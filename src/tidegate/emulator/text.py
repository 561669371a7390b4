"""Made-up text and its tokens.

One token is four bytes. Each message of a chat is a role marker of four tokens and its content, filled
up to a whole token; a prompt of a completion is filled up alike. An answer consists of words of four
bytes, one a token, that depend on the prompt and the ``seed`` alone: the same prompt gets the same
answer. So a client can count ``ceil(bytes / 4)``, and the next turn of a chat begins with exactly the
tokens of the turn before, as it must for a prefix cache to find them.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Iterable

TOKEN_BYTES = 4
_MARKER_BYTES = 16
EMBEDDING_SIZE = 64

_VOCABULARY = (
    "the and for are but not you all any can had her was one our out day get has him his how man new now "
    "old see two way who did its let put say she too use sea fog bay ebb sun dry wet top end far few ice low "
    "mud net oar sky tug"
)
_WORDS = _VOCABULARY.split()
_TABLE = tuple(f"{_WORDS[number % len(_WORDS)]} " for number in range(256))


def chat_prompt(messages: Iterable[tuple[str, str]]) -> bytes:
    """Roles and contents as the engine sees them, with the marker that asks for the answer."""
    parts = [part for role, content in messages for part in (_marker(role), _filled(content.encode()))]
    return b"".join([*parts, _marker("assistant")])


def plain_prompt(text: str) -> bytes:
    """The prompt of a completion; an empty one counts as one token."""
    return _filled(text.encode()) or bytes(TOKEN_BYTES)


def tokens_in(prompt: bytes) -> int:
    """Tokens of a prompt."""
    return len(prompt) // TOKEN_BYTES


def natural_tokens(prompt: bytes) -> int:
    """How long the answer to this prompt is when nobody limits it: 16 to 271 tokens."""
    return 16 + hashlib.blake2b(prompt, digest_size=1, person=b"length").digest()[0]


def answer(prompt: bytes, tokens: int, seed: int = 0, given: str = "") -> str:
    """The first ``tokens`` words of the answer to this prompt, or those that follow its ``given`` beginning.

    A beginning of somebody else's goes on as if it belonged to the prompt.
    """
    begun = len(given) // TOKEN_BYTES
    source = hashlib.shake_128(seed.to_bytes(8, "big", signed=True) + prompt)
    whole = "".join(map(_TABLE.__getitem__, source.digest(begun + tokens)))
    if given == whole[: begun * TOKEN_BYTES]:
        return whole[len(given) :]
    return answer(prompt + _filled(given.encode()), tokens, seed)


def garbage(tokens: int) -> str:
    """What an engine says whose weights are no weights."""
    return "!!! " * tokens


def block_hashes(text: bytes, block_tokens: int, adapter: str = "") -> tuple[int, ...]:
    """The chained hashes of the full blocks of a text: equal hashes, equal text up to there.

    What one adapter has computed is of no use to another.
    """
    chain = hashlib.blake2b(adapter.encode(), digest_size=8)
    size = block_tokens * TOKEN_BYTES
    hashes = []
    for begin in range(0, len(text) - size + 1, size):
        chain.update(text[begin : begin + size])
        hashes.append(int.from_bytes(chain.copy().digest(), "big"))
    return tuple(hashes)


def embedding(prompt: bytes) -> list[float]:
    """A vector of length 1 that depends on the text alone."""
    raw = [byte - 127.5 for byte in hashlib.shake_128(prompt).digest(EMBEDDING_SIZE)]
    length = sum(value * value for value in raw) ** 0.5
    return [value / length for value in raw]


def packed(vector: list[float]) -> str:
    """As OpenAI's clients ask for it: little-endian floats in base64."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _marker(role: str) -> bytes:
    return f"<|{role[:12]}|>".encode()[:_MARKER_BYTES].ljust(_MARKER_BYTES, b"\n")


def _filled(text: bytes) -> bytes:
    return text + bytes(-len(text) % TOKEN_BYTES)
