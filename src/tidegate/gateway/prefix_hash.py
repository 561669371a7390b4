"""Hashes of a prompt's blocks: each stands for all text up to its block's end, and tells nobody what that text is.

What is hashed are the bytes of the request's own JSON, in the order in which a chat template lays them out: tools,
documents, instructions, then messages with their roles, or the prompt, be it text or token ids. So a conversation's
next turn begins with the same hashes. Nothing is parsed for it: the decoder has left these fields as they came.
Two clients that write the same text as different JSON share no hashes, which costs a hit and never a wrong one.

Every chain starts from a secret of this process, the tenant, the model, the adapter, the client's own ``cache_salt``
and what else changes the template. Without the secret nobody can tell which text a hash stands for; with another
tenant's key nobody gets the same hashes.

SHA-256, because processors have instructions for it: of what the standard library offers it is the fastest by half. One
state runs through the whole prompt, and a copy of it is closed at each block's end.

An image inside the JSON counts as its digest and a fixed number of tokens, not as the megabyte that it is.
"""

from __future__ import annotations

import secrets
from hashlib import sha256
from typing import NamedTuple, Protocol

from tidegate.core.types import FlowId, ModelId
from tidegate.gateway.body import ABSENT, Asked

BLOCK_BYTES = 1024
BLOCKS_MAX = 1024
"""A longer prompt is known by its first megabyte."""
SECRET_BYTES = 64
"""One block of SHA-256."""
HASH_BYTES, HASH_SHIFT = 8, 4
"""Of 256 bits 60 are kept: the largest number for which Python needs 32 bytes."""
SEEDS_MAX = 1024

IMAGE_MARK = b";base64,"
IMAGE_TOKENS = 1_000
IMAGE_PAD = 4 * IMAGE_TOKENS
"""Bytes that an image stands for, at four a token."""


class Hashed(NamedTuple):
    """A prompt's chain, and how many bytes of text its images take the place of; 0 without any."""

    chain: tuple[int, ...]
    image_bytes: int = 0


NOTHING = Hashed(())


class Running(Protocol):
    """A hash that goes on."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Take more in."""

    def copy(self) -> Running:
        """Another one that stands where this one does."""

    def digest(self) -> bytes:
        """The hash of all that was taken in."""


class PromptHasher:
    """Makes chains. Its secret lives as long as the process."""

    def __init__(self, secret: bytes | None = None) -> None:
        self._secret = secrets.token_bytes(SECRET_BYTES) if secret is None else secret
        self._seeds: dict[tuple[str, str, str], Running] = {}

    def __repr__(self) -> str:
        return f"<PromptHasher seeds={len(self._seeds)}>"

    def hashed(self, asked: Asked, flow: FlowId, model: ModelId, adapter: str | None) -> Hashed:
        """The chain of the prompt's full blocks; empty when there is none."""
        parts = _parts(asked)
        size = sum(len(part) for part in parts)
        if size < BLOCK_BYTES:
            return NOTHING
        text = parts[0] if len(parts) == 1 else memoryview(b"\0".join(parts))
        image_bytes = 0
        if size > IMAGE_PAD and IMAGE_MARK in (whole := bytes(text)):
            text = memoryview(_without_images(whole))
            image_bytes = len(whole) - len(text)
        return Hashed(_chain(text, self._seed(asked, flow, model, adapter)), image_bytes)

    def _seed(self, asked: Asked, flow: FlowId, model: ModelId, adapter: str | None) -> Running:
        key = (flow, model, adapter or "")
        seed = self._seeds.get(key)
        if seed is None:
            if len(self._seeds) >= SEEDS_MAX:
                self._seeds.clear()
            seed = self._seeds[key] = sha256(self._secret)
            _take_in(seed, *(name.encode() for name in key))
        seed = seed.copy()
        if asked.messages is ABSENT:
            # A template stands around messages and around an input, and none around a prompt.
            seed.update(b"prompt" if asked.input is ABSENT else b"input")
        salts = (asked.cache_salt, asked.chat_template, asked.chat_template_kwargs, asked.reasoning_effort)
        if any(salt is not ABSENT for salt in salts):
            _take_in(seed, *map(bytes, salts))
        return seed


def _take_in(running: Running, *parts: bytes) -> None:
    """Parts with their lengths: no other parts come to the same bytes."""
    for part in parts:
        running.update(len(part).to_bytes(8, "little"))
        running.update(part)


def _parts(asked: Asked) -> list[memoryview]:
    """What the prompt is made of, as it came, in the order of a template."""
    return [
        memoryview(part)
        for part in (
            asked.tools,
            asked.functions,
            asked.documents,
            asked.instructions,
            asked.messages,
            asked.input,
            asked.prompt,
        )
        if part is not ABSENT
    ]


def _chain(text: memoryview, running: Running) -> tuple[int, ...]:
    chain = []
    for start in range(0, min(len(text) - BLOCK_BYTES, (BLOCKS_MAX - 1) * BLOCK_BYTES) + 1, BLOCK_BYTES):
        running.update(text[start : start + BLOCK_BYTES])
        chain.append(int.from_bytes(running.copy().digest()[:HASH_BYTES], "little") >> HASH_SHIFT)
    return tuple(chain)


def _without_images(text: bytes) -> bytes:
    """The text with each embedded image as its digest, padded to what its tokens would be as text."""
    kept = []
    position = 0
    while (mark := text.find(IMAGE_MARK, position)) >= 0:
        start = mark + len(IMAGE_MARK)
        end = text.find(b'"', start)
        end = len(text) if end < 0 else end
        kept.append(text[position:start])
        if end - start > IMAGE_PAD:
            kept.append(sha256(text[start:end]).hexdigest().encode().ljust(IMAGE_PAD))
        else:
            kept.append(text[start:end])
        position = end
    kept.append(text[position:])
    return b"".join(kept)
