"""OpenAI's wire format, as vLLM speaks it: requests in, answers, stream events and errors out."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from tidegate.emulator import text

DONE = b"data: [DONE]\n\n"
_MARK = "\x00choice"


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


class Answer:
    """The frame of one answer: whole, or as events of a stream."""

    def __init__(self, wanted: Wanted, *, is_chat: bool) -> None:
        self._is_chat = is_chat
        self._id = f"{'chatcmpl' if is_chat else 'cmpl'}-{uuid.uuid4().hex}"
        self._kind = ("chat.completion" if is_chat else "text_completion") + (
            ".chunk" if is_chat and wanted.is_stream else ""
        )
        self._wanted = wanted
        self._created = int(time.time())
        whole = msgspec.json.encode(self._frame([_MARK]))
        head, _, tail = whole.partition(msgspec.json.encode(_MARK))
        self._head, self._tail = b"data: " + head, tail + b"\n\n"

    def opening(self) -> bytes:
        """What a chat's stream begins with; nothing for a completion."""
        delta = {"role": "assistant", "content": ""}
        return self._event({"index": 0, "delta": delta, "finish_reason": None}) if self._is_chat else b""

    def tokens(self, words: str, tokens_out: int) -> bytes:
        """An event with more of the answer. Plain words: no character of theirs needs escaping."""
        begin = b'{"index":0,"delta":{"content":"' if self._is_chat else b'{"index":0,"text":"'
        end = b'"},"finish_reason":null}' if self._is_chat else b'","finish_reason":null}'
        tail = self._tail
        if self._wanted.counts_as_it_goes:
            counts = msgspec.json.encode(self._usage(tokens_out, 0))
            tail = b'],"usage":' + counts + b"}\n\n"
        return self._head + begin + words.encode() + end + tail

    def ending(self, finish_reason: str) -> bytes:
        """The last event with a choice."""
        said: dict[str, Any] = {"delta": {"content": ""}} if self._is_chat else {"text": ""}
        return self._event({"index": 0} | said | {"finish_reason": finish_reason})

    def usage_event(self, output_tokens: int, cached_tokens: int) -> bytes:
        """The event without a choice that ``include_usage`` asks for."""
        body = self._frame([]) | {"usage": self._usage(output_tokens, cached_tokens)}
        return b"data: " + msgspec.json.encode(body) + b"\n\n"

    def whole(self, words: str, finish_reason: str, output_tokens: int, cached_tokens: int) -> bytes:
        """The answer in one piece."""
        said: dict[str, Any] = (
            {"message": {"role": "assistant", "content": words}} if self._is_chat else {"text": words}
        )
        choice = {"index": 0} | said | {"logprobs": None, "finish_reason": finish_reason}
        usage = self._usage(output_tokens, cached_tokens)
        return msgspec.json.encode(self._frame([choice]) | {"usage": usage})

    def _event(self, choice: dict[str, Any]) -> bytes:
        return self._head + msgspec.json.encode(choice) + self._tail

    def _frame(self, choices: list[Any]) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": self._kind,
            "created": self._created,
            "model": self._wanted.model,
            "choices": choices,
        }

    def _usage(self, output_tokens: int, cached_tokens: int) -> dict[str, Any]:
        return usage(self._wanted.prompt_tokens, output_tokens, cached_tokens)


def usage(prompt_tokens: int, output_tokens: int, cached_tokens: int) -> dict[str, Any]:
    """Token counts as OpenAI writes them."""
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + output_tokens,
        "completion_tokens": output_tokens,
        "prompt_tokens_details": {"cached_tokens": cached_tokens},
    }


def embeddings(model: str, prompts: list[bytes], *, is_packed: bool) -> bytes:
    """The answer to ``/v1/embeddings``."""
    vectors = [text.embedding(prompt) for prompt in prompts]
    data = [
        {"object": "embedding", "index": index, "embedding": text.packed(vector) if is_packed else vector}
        for index, vector in enumerate(vectors)
    ]
    tokens = sum(map(text.tokens_in, prompts))
    counts = {"prompt_tokens": tokens, "total_tokens": tokens}
    return msgspec.json.encode({"object": "list", "data": data, "model": model, "usage": counts})


def models(model: str, adapters: Mapping[str, str], context_tokens: int) -> bytes:
    """The answer to ``/v1/models``: the model, and its adapters, by name and path, as models of their own."""
    base = {"object": "model", "created": 0, "owned_by": "tidegate", "max_model_len": context_tokens}
    cards = [base | {"id": model, "root": model, "parent": None}]
    cards += [base | {"id": name, "root": path, "parent": model} for name, path in adapters.items()]
    return msgspec.json.encode({"object": "list", "data": cards})


def error(status: int, message: str, kind: str, param: str | None = None) -> bytes:
    """An error in vLLM's shape."""
    body = {"message": message, "type": kind, "param": param, "code": status}
    return msgspec.json.encode({"error": body})
