"""A stream that may be taken up by another replica: what its client has been told, and how to go on.

Only for models that ask for it, since every event is read for it. The first engine's stream is passed on
almost as it came. When it breaks off, another engine is given the prompt and the answer so far as the
beginning of its own; what it adds is passed on under the first stream's id, so the client sees one answer.
Counts of tokens are put right: what was passed on before is no prompt of the client's.

Not for several choices, guided decoding, log probabilities, or once a tool call has begun: there the text
so far is not all that the next engine would have to know.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tidegate.adapters.base import Manners
from tidegate.gateway.routes import CHAT, COMPLETIONS, Relay
from tidegate.gateway.usage import Usage

_NEVER = frozenset(
    {
        "best_of",
        "echo",
        "grammar",
        "json_schema",
        "logprobs",
        "prompt_logprobs",
        "response_format",
        "structured_outputs",
        "suffix",
        "top_logprobs",
        "use_beam_search",
    }
)
"""Fields that rule taking up out, when they are set."""
_LIMITS = ("max_tokens", "max_completion_tokens", "min_tokens")
_OTHER_PARTS = ("tool_calls", "function_call", "reasoning_content", "reasoning", "refusal")
"""Parts of an answer that no beginning can be made of."""

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.encode


class Transcript:
    """One client's stream, across the engines that write it."""

    __slots__ = (
        "_asked",
        "_first",
        "_is_chat",
        "_is_other",
        "_is_taken_up",
        "_text",
        "_wants_usage",
        "given",
        "is_finished",
        "tokens",
    )

    def __init__(self, asked: dict[str, Any], *, is_chat: bool) -> None:
        self._asked = asked
        self._is_chat = is_chat
        options = asked.get("stream_options")
        self._wants_usage = isinstance(options, dict) and bool(options.get("include_usage"))
        self._first: dict[str, Any] | None = None
        """Id, time and model of the first stream."""
        self._text: list[str] = []
        self._is_other = False
        """Something was passed on that is not text."""
        self._is_taken_up = False
        self.tokens = 0
        """Passed on so far."""
        self.given = 0
        """Of these, by engines before the present one."""
        self.is_finished = False
        """The reason for its end has been passed on."""

    def __repr__(self) -> str:
        return f"<Transcript tokens={self.tokens} given={self.given} finished={self.is_finished}>"

    # ---- towards an engine ----

    def body(self, manners: Manners) -> bytes:
        """The request for the present engine: the client's own, or one to go on with."""
        asked = dict(self._asked)
        if manners.counts_as_it_goes:
            asked["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
        if self.given:
            text = "".join(self._text)
            if self._is_chat:
                beginning = {"role": "assistant", "content": text}
                asked["messages"] = [*asked["messages"], beginning]
                asked |= manners.chat_continuation or {}
            else:
                asked["prompt"] += text
            for name in _LIMITS:
                if isinstance(asked.get(name), int):
                    asked[name] = max(0, asked[name] - self.given)
        return _encode(asked)

    def resumable_tokens(self, manners: Manners) -> int | None:
        """Tokens passed on, when another engine of this kind can go on from there; else None."""
        can = manners.chat_continuation is not None if self._is_chat else manners.continues_completions
        if not can or self.is_finished or self._is_other:
            return None
        for name in ("max_tokens", "max_completion_tokens"):
            limit = self._asked.get(name)
            if isinstance(limit, int) and limit <= self.tokens:
                return None  # All has been said but that it is over, and only the engine knows why.
        return self.tokens

    def take_up(self) -> None:
        """From here on another engine writes."""
        self.given, self._is_taken_up = self.tokens, True

    # ---- towards the client ----

    def pass_on(self, events: bytes) -> bytes:
        """Whole events of the present engine as the client gets them."""
        parts = events.replace(b"\r\n", b"\n").split(b"\n\n")
        return b"".join([self._event(part) for part in parts if part])

    def settled(self, usage: Usage) -> Usage:
        """The engine's own count, as if one engine had written all of it."""
        if not self.given:
            return usage
        prompt, output = usage.prompt_tokens, usage.output_tokens
        return Usage(
            None if prompt is None else max(0, prompt - self.given),
            usage.cached_tokens,
            self.tokens if output is None else output + self.given,
        )

    def _event(self, event: bytes) -> bytes:
        as_it_came = event + b"\n\n"
        if not event.startswith(b"data:"):
            return as_it_came
        data = event[5:].strip()
        if data == b"[DONE]":
            return as_it_came
        try:
            said = _decode(data)
        except msgspec.DecodeError:
            self._is_other = True
            return as_it_came
        if not isinstance(said, dict):
            return as_it_came
        return self._said(said, as_it_came)

    def _said(self, said: dict[str, Any], as_it_came: bytes) -> bytes:
        usage, choices = said.get("usage"), said.get("choices")
        if not choices:
            if usage is None or self._wants_usage:
                return self._as_one(said, as_it_came)
            return b""
        choice = choices[0]
        text = (choice.get("delta") or {}).get("content") if self._is_chat else choice.get("text")
        opens = self._is_chat and not text and "role" in (choice.get("delta") or {})
        is_second = self._is_taken_up and self._first is not None
        if opens and is_second and choice.get("finish_reason") is None:
            return b""  # One answer begins once, also when no token came of the first beginning.
        self._note(choice, text, usage)
        if usage is not None:
            del said["usage"]
            as_it_came = b""
        return self._as_one(said, as_it_came)

    def _note(self, choice: dict[str, Any], text: str | None, usage: dict[str, Any] | None) -> None:
        delta = choice.get("delta") or {}
        if any(delta.get(part) for part in _OTHER_PARTS):
            self._is_other = True
        if text:
            self._text.append(text)
        if text or self._is_other:
            # An engine counts tokens that it still holds back, parts of a character for one. The next engine has to
            # write those again, so they count with the text that they become.
            counted = None if usage is None else usage.get("completion_tokens")
            self.tokens = self.given + counted if isinstance(counted, int) else self.tokens + 1
        if choice.get("finish_reason") is not None:
            self.is_finished = True

    def _as_one(self, said: dict[str, Any], as_it_came: bytes) -> bytes:
        """The event as part of the first stream."""
        if self._first is None:
            self._first = {name: said[name] for name in ("id", "created", "model") if name in said}
        if self._is_taken_up:
            said |= self._first
            usage = said.get("usage")
            if isinstance(usage, dict):
                said["usage"] = self._counted(usage)
        elif as_it_came:
            return as_it_came
        return b"data: " + _encode(said) + b"\n\n"

    def _counted(self, usage: dict[str, Any]) -> dict[str, Any]:
        counted = dict(usage)
        counted["prompt_tokens"] = max(0, int(usage.get("prompt_tokens") or 0) - self.given)
        counted["completion_tokens"] = int(usage.get("completion_tokens") or 0) + self.given
        return counted


def transcript_of(relay: Relay, body: bytes) -> Transcript | None:
    """A transcript for a request that could be taken up; None for all others."""
    if relay.path not in (CHAT, COMPLETIONS):
        return None
    asked = _decode(body)
    if not asked.get("stream") or asked.get("n") not in (None, 1):
        return None
    if any(asked.get(name) for name in _NEVER) or any(name.startswith("guided_") for name in asked):
        return None
    if relay.path == CHAT:
        return Transcript(asked, is_chat=True) if isinstance(asked.get("messages"), list) else None
    return Transcript(asked, is_chat=False) if isinstance(asked.get("prompt"), str) else None
