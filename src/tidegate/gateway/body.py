"""The few fields of a request's JSON that a decision needs, typed and within their ranges.

The rest of the document is checked for being JSON and goes to the engine as it came. Bounds hold for
every numeric field that is known to have hurt an engine: a huge ``n`` fans out into that many
sequences, a negative count has written out of bounds.
"""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
from msgspec import Meta

from tidegate.gateway.errors import Refusal, invalid

MAX_TOKENS = 10_000_000
"""More than the context of any model."""
MAX_CHOICES = 128

Count = Annotated[int, Meta(ge=0, le=MAX_TOKENS)]
Choices = Annotated[int, Meta(ge=1, le=MAX_CHOICES)]


class StreamOptions(msgspec.Struct):
    """How a stream is written."""

    include_usage: bool | None = None


ABSENT = msgspec.Raw(b"")
"""A field that the request does not have."""


class Asked(msgspec.Struct):
    """What a request asks for, as far as the gateway must know it.

    The fields of the prompt stay the bytes that they came as: they are hashed, not read.
    """

    model: Annotated[str, Meta(min_length=1, max_length=256)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    max_output_tokens: Count | None = None
    n: Choices | None = None
    best_of: Choices | None = None
    min_tokens: Count | None = None
    n_predict: Count | None = None
    n_discard: Count | None = None
    prompt_cache_key: str | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=1_000)] | None = None
    messages: msgspec.Raw = ABSENT
    input: msgspec.Raw = ABSENT
    prompt: msgspec.Raw = ABSENT
    instructions: msgspec.Raw = ABSENT
    tools: msgspec.Raw = ABSENT
    functions: msgspec.Raw = ABSENT
    documents: msgspec.Raw = ABSENT
    cache_salt: msgspec.Raw = ABSENT
    chat_template: msgspec.Raw = ABSENT
    chat_template_kwargs: msgspec.Raw = ABSENT
    reasoning_effort: msgspec.Raw = ABSENT

    @property
    def output_tokens_limit(self) -> int | None:
        """The most tokens that the answer may have, over all its choices; None when that is open."""
        limit = self.max_tokens
        if self.max_completion_tokens is not None:
            limit = self.max_completion_tokens
        elif self.max_output_tokens is not None:
            limit = self.max_output_tokens
        return None if limit is None else limit * max(self.n or 1, self.best_of or 1)


BRACKETS_CHECKED = 100
"""A body with fewer brackets of either kind than this is not nested too deeply for anybody."""
HEADROOM = 100
"""Calls by which a later reader of the body, the one that rewrites it for an engine, may stand deeper in
the stack than its first; it is 30."""

_decoder = msgspec.json.Decoder(Asked)
EXACT_MAX = 2.0**53
"""Beyond this not every whole number is a float."""
_POINTED = re.compile(r"Expected `int \| null`, got `float`")
_FIELD = re.compile(r"`\$\.([a-z_.]+)`")
_MISSING = re.compile(r"missing required field `([a-z_]+)`")
_WHERE = re.compile(r"\(byte \d+\)")


def read_json(body: bytes) -> Asked:
    """Decode a request body.

    Raises:
        Refusal: 400 that names the field, or the position at which it stops being JSON.
    """
    try:
        asked = _decode_deeper(body, HEADROOM) if _may_be_deep(body) else _decode(body)
        if not body.isascii():
            # The decoder passes over strings that nobody asked for without looking into them.
            body.decode("utf-8")
    except msgspec.ValidationError as error:
        raise _misfit(str(error)) from None
    except UnicodeDecodeError as error:
        message = f"the request body is not UTF-8 (byte {error.start})"
        raise invalid(message) from None
    except msgspec.DecodeError as error:
        # Only the position is taken from the decoder's message: never a part of the document.
        where = _WHERE.search(str(error))
        message = "the request body is not valid JSON" + (f" {where[0]}" if where else "")
        raise invalid(message) from None
    except RecursionError:
        message = "the request body is nested too deeply"
        raise invalid(message) from None
    return asked


def _decode(body: bytes) -> Asked:
    """A whole number may be written with a point: JSON has one kind of number, and vLLM takes 4.0 for 4."""
    try:
        return _decoder.decode(body)
    except msgspec.ValidationError as error:
        if _POINTED.match(str(error)) is None:
            raise
    document = msgspec.json.decode(body)
    for name, value in document.items():
        if isinstance(value, float) and value.is_integer() and abs(value) < EXACT_MAX:
            document[name] = int(value)
    return _decoder.decode(msgspec.json.encode(document))


def _may_be_deep(body: bytes) -> bool:
    """Whether there are brackets enough for it. Looking for the next costs less than counting all."""
    find = body.find
    for bracket in b"{[":
        seen, at = 0, find(bracket)
        while at >= 0:
            seen += 1
            if seen == BRACKETS_CHECKED:
                return True
            at = find(bracket, at + 1)
    return False


def _decode_deeper(body: bytes, calls: int) -> Asked:
    """Decode from so many calls further down. The decoder's limit is what the stack has left, so what is
    not too deep there is not too deep wherever the body is read again."""
    return _decode_deeper(body, calls - 1) if calls else _decode(body)


def _misfit(said: str) -> Refusal:
    """The decoder's complaint in our words; it holds types, bounds and field names, no values."""
    missing = _MISSING.search(said)
    if missing is not None:
        return invalid(f"the field {missing[1]!r} is missing", missing[1])
    field = _FIELD.search(said)
    what = said.partition(" - at ")[0].replace("`", "")
    if field is None:
        return invalid(f"the request body is not an object: {what}")
    return invalid(f"the field {field[1]!r} is not acceptable: {what}", field[1])


def named(body: bytes, model: str) -> bytes:
    """The same document for another model."""
    document = msgspec.json.decode(body)
    document["model"] = model
    return msgspec.json.encode(document)
