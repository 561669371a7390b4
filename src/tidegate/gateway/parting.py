"""How a client is told that its request has ended without a whole answer.

What can still be said depends on what it has had: before an answer began an error is the answer, in a
stream it is one more event, and after that only an end that nobody takes for a good one.
"""

from __future__ import annotations

from tidegate.core.effects import Reject
from tidegate.gateway.call import Call
from tidegate.gateway.errors import outcome_answer, outcome_event, unknown_model
from tidegate.gateway.framing import LAST_CHUNK, chunk


def part(call: Call, order: Reject) -> None:
    """Tell the call's client, and let its connection go on to the next request or end."""
    client = call.client
    if not call.began and not call.is_open:
        keep_alive = call.keep_alive and client.may_keep_alive
        because = order.because if call.unknown is None else unknown_model(call.unknown)
        data = outcome_answer(
            order.outcome,
            because,
            request_id=call.echo,
            retry_after_s=order.retry_after_s,
            keep_alive=keep_alive,
        )
        client.answer(data, keep_alive=keep_alive)
    elif call.events_began or call.is_open:
        event = outcome_event(order.outcome, order.because)
        client.write(event if call.http10 else chunk(event) + LAST_CHUNK)
        client.finished(keep_alive=False)
    elif call.ends_open:
        client.abort()
        client.call = None
    else:
        # No error can be written into the middle of a document; an end without its last chunk, or
        # short of its length, is one that every client notices.
        client.finished(keep_alive=False)
