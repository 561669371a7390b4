"""What OpenAI-compatible engines have in common: the probe that asks for one token, its answer, and how one breaks off."""

from __future__ import annotations

import msgspec

from tidegate.adapters.base import Probe, Readiness

ABORT_MARKS = (b'"finish_reason":"abort"', b'"finish_reason": "abort"')
"""In a streamed event: the engine cut its answer short."""
_TRY_AGAIN = frozenset({429, 503})


class _Answer(msgspec.Struct):
    choices: list[msgspec.Raw]


_ANSWER = msgspec.json.Decoder(_Answer)


def completion_probe(model_name: str, **extra: object) -> Probe:
    """One token through ``/v1/completions``, which needs no chat template."""
    fields = {"model": model_name, "prompt": "a", "max_tokens": 1, "temperature": 0} | extra
    return Probe("POST", "/v1/completions", msgspec.json.encode(fields))


def chat_probe(model_name: str) -> Probe:
    """One token through ``/v1/chat/completions``, the one path that every such server has."""
    message = {"role": "user", "content": "a"}
    fields = {"model": model_name, "messages": [message], "max_tokens": 1, "temperature": 0}
    return Probe("POST", "/v1/chat/completions", msgspec.json.encode(fields))


def token_readiness(status: int, body: bytes) -> Readiness:
    """READY only for an answer that holds a choice; busy and loading answers are worth another try."""
    if status in _TRY_AGAIN:
        return Readiness.LOADING
    if status != 200:
        return Readiness.BROKEN
    try:
        return Readiness.READY if _ANSWER.decode(body).choices else Readiness.BROKEN
    except msgspec.DecodeError:
        return Readiness.BROKEN


def never_sleeps(_body: bytes) -> bool:
    """Of an engine that does not sleep, or that a scrape does not wake: nobody asks."""
    return False
