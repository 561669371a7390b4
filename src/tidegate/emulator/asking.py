"""OpenAI's wire format, as vLLM speaks it: what requests ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from tidegate.emulator import text


class BadRequest(ValueError):
    """The client's fault; the message says what and may be shown."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request asks for."""

    model: str
    prompt: bytes
    max_tokens: int | None
    is_stream: bool
    include_usage: bool
    ignore_eos: bool
    seed: int
    given: str = ""
    """The beginning of the answer, when the request is to go on with one."""
    counts_as_it_goes: bool = False
    """Every event of the stream says how many tokens there are."""

    @property
    def given_tokens(self) -> int:
        return text.tokens_in(text.plain_prompt(self.given)) if self.given else 0

    @property
    def prompt_tokens(self) -> int:
        return text.tokens_in(self.prompt) + self.given_tokens

    @classmethod
    def of_embedding(cls, model: str, prompt: bytes) -> Wanted:
        """A prompt to be read only; the engine does that as an answer of one token."""
        return cls(model, prompt, 1, is_stream=False, include_usage=False, ignore_eos=True, seed=0)

    def output_tokens(self) -> tuple[int, str]:
        """How many tokens to generate, and why it ends there."""
        natural = max(1, text.natural_tokens(self.prompt) - self.given_tokens)
        if self.max_tokens is None:
            return natural, "stop"
        if self.ignore_eos or self.max_tokens < natural:
            return self.max_tokens, "length"
        return natural, "stop"


class _StreamOptions(msgspec.Struct):
    include_usage: bool = False
    continuous_usage_stats: bool = False


class _Message(msgspec.Struct):
    role: str
    content: str | list[dict[str, Any]] | None = None


class _Sampling(msgspec.Struct, kw_only=True):
    model: str = ""
    max_tokens: int | None = None
    stream: bool | None = False
    stream_options: _StreamOptions | None = None
    ignore_eos: bool = False
    seed: int | None = None
    n: int | None = 1


class _Chat(_Sampling, kw_only=True):
    messages: list[_Message]
    max_completion_tokens: int | None = None
    continue_final_message: bool = False


class _Completion(_Sampling, kw_only=True):
    prompt: str | list[str | int]


class _Embedding(msgspec.Struct, kw_only=True):
    model: str = ""
    input: str | list[str | int]
    encoding_format: str = "float"


_chats, _completions, _embeddings = (
    msgspec.json.Decoder(_Chat),
    msgspec.json.Decoder(_Completion),
    msgspec.json.Decoder(_Embedding),
)


def read_chat(body: bytes) -> Wanted:
    """A body of ``/v1/chat/completions``."""
    asked: _Chat = _decoded(_chats, body)
    messages, given = asked.messages, ""
    if asked.continue_final_message:
        if not messages or messages[-1].role != "assistant":
            raise BadRequest("continue_final_message needs a last message of the assistant.")
        messages, given = messages[:-1], _content(messages[-1])
    prompt = text.chat_prompt((message.role, _content(message)) for message in messages)
    return _wanted(asked, prompt, asked.max_completion_tokens or asked.max_tokens, given)


def read_completion(body: bytes) -> Wanted:
    """A body of ``/v1/completions``; one prompt, as text or as token ids."""
    asked: _Completion = _decoded(_completions, body)
    (prompt,) = _texts("prompt", asked.prompt, most=1)
    return _wanted(asked, prompt, 16 if asked.max_tokens is None else asked.max_tokens)


def read_embedding(body: bytes) -> tuple[str, list[bytes], bool]:
    """A body of ``/v1/embeddings``: model, texts, and whether base64 is wanted."""
    asked: _Embedding = _decoded(_embeddings, body)
    return asked.model, _texts("input", asked.input, most=2048), asked.encoding_format == "base64"


def _decoded(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(str(error)) from error


def _wanted(asked: _Sampling, prompt: bytes, max_tokens: int | None, given: str = "") -> Wanted:
    if max_tokens is not None and max_tokens < 1:
        message = f"max_tokens must be at least 1, got {max_tokens}."
        raise BadRequest(message)
    if asked.n not in (None, 1):
        message = f"n must be 1, got {asked.n}."
        raise BadRequest(message)
    options = asked.stream_options or _StreamOptions()
    return Wanted(
        model=asked.model,
        prompt=prompt,
        max_tokens=max_tokens,
        is_stream=bool(asked.stream),
        include_usage=options.include_usage,
        ignore_eos=asked.ignore_eos,
        seed=(asked.seed or 0) % 2**63,
        given=given,
        counts_as_it_goes=options.continuous_usage_stats,
    )


def _content(message: _Message) -> str:
    if isinstance(message.content, list):
        return "".join(str(part.get("text", "")) for part in message.content)
    return message.content or ""


def _texts(name: str, given: str | list[str | int], most: int) -> list[bytes]:
    if isinstance(given, str):
        return [text.plain_prompt(given)]
    if given and all(isinstance(part, int) for part in given):
        return [b"".join((int(part) % 2**32).to_bytes(text.TOKEN_BYTES, "big") for part in given)]
    texts = [text.plain_prompt(part) for part in given if isinstance(part, str)]
    if not 1 <= len(texts) == len(given) <= most:
        message = f"{name} must be a text, a list of token ids or a list of 1 to {most} texts."
        raise BadRequest(message)
    return texts
