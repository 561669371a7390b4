"""Whether an answer is whole that ended with its connection.

It ends as it would if the engine were killed, so the end proves nothing. Such an answer is whole, the first that fits:

1. a stream of events, when its end mark has come;
2. JSON that was held, when it decodes;
3. anything else, when the engine had said that it would close and closed in good order. Nobody can
   know more. JSON too large to be held shows its end to whoever decodes it; other bodies are passed on
   without chunks, to end with the client's connection too (``AnswerHead.ends_open``).

All others are cut, and the client is left with an answer that is seen to be incomplete.
"""

from __future__ import annotations

import msgspec

from tidegate.gateway.answer import AnswerHead
from tidegate.gateway.call import Call
from tidegate.gateway.framing import dechunk
from tidegate.gateway.usage import Tail


def ends_whole(call: Call, answer: AnswerHead, tail: Tail, held: bytes, out: bytes) -> bool:
    """Whether the answer is whole that ended, in good order, on the bytes ``out``; ``held`` is JSON not passed on."""
    if answer.is_stream:  # 1
        final = call.relay.final
        return final is not None and tail.shows(final, out)
    if answer.is_json and not call.began:  # 2
        return is_whole_json(dechunk(held + out))
    return answer.says_close  # 3


def is_whole_json(document: bytes) -> bool:
    """Whether a document that ends with its connection has come to its own end."""
    try:
        msgspec.json.decode(document, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
