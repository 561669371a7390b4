"""OpenAI's wire format, as vLLM speaks it: answers, stream events and errors."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec

from tidegate.emulator import text
from tidegate.emulator.asking import Wanted

DONE = b"data: [DONE]\n\n"
_MARK = "\x00choice"


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
