"""One connection to an engine, and the answer that is coming in on it.

Reading an answer has two sides. What passes on to the client is decided first (``framing``): bytes
as they came, up to where an error event could still follow. What is learned from it is read in
passing: whether the engine broke off and calls it finished, when events came, and from the last
bytes the usage. JSON that is not streamed is held until it is whole, since half of it is of no use
to a client, and as long as nothing was passed on another replica may still be tried.

Whether an answer is whole that ends with its connection, ``endings`` says.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import cast

from tidegate.adapters.base import Manners
from tidegate.core.events import Failure
from tidegate.core.types import Route
from tidegate.gateway.answer import AnswerHead, first_head
from tidegate.gateway.call import Attendant, Call
from tidegate.gateway.endings import ends_whole
from tidegate.gateway.framing import LAST_CHUNK, Flow, Malformed, chunk, dechunk, last_event_end
from tidegate.gateway.signs import ErrorBody, abort_in, failure_of
from tidegate.gateway.usage import NOT_SAID, Tail, Usage

JSON_HELD_MAX = 1024 * 1024
"""A larger answer (a batch of embeddings) is passed on as it comes."""
JOIN_MAX = 64 * 1024
"""Up to here joining head and body costs less than the second system call."""


class UpstreamConnection(asyncio.Protocol):
    """A keep-alive connection to one replica; carries one call at a time."""

    __slots__ = (
        "_answer",
        "_attendant",
        "_error",
        "_flow",
        "_head",
        "_held",
        "_last_out_s",
        "_length",
        "_paused",
        "_reused",
        "_tail",
        "_transport",
        "_unread",
        "call",
        "last_byte_s",
        "manners",
        "resting_since_s",
        "route",
    )

    def __init__(self, attendant: Attendant, route: Route, manners: Manners) -> None:
        self._attendant = attendant
        self.route = route
        self.manners = manners
        self.call: Call | None = None
        self.resting_since_s = monotonic()
        self.last_byte_s = 0.0
        self._paused = False
        self._reused = False
        self._transport: asyncio.Transport
        self._flow: Flow
        self._tail = Tail()
        self._reset()

    def __repr__(self) -> str:
        return (
            f"<UpstreamConnection {self.route.replica_id} call={self.call is not None} reused={self._reused}>"
        )

    def _reset(self) -> None:
        self._unread = True
        self._head = b""
        self._answer: AnswerHead | None = None
        self._error: ErrorBody | None = None
        self._length: int | None = None
        self._held = b""
        self._tail.clear()
        self._last_out_s = 0.0

    # ---- orders ----

    def begin(self, call: Call, head: bytes, body: bytes) -> None:
        """Send a request."""
        self._reused = self._answer is not None
        if self._reused:
            self._reset()
        self.call = call
        call.upstream = self
        self.last_byte_s = monotonic()
        if len(body) <= JOIN_MAX:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)

    def pause(self) -> None:
        """Read no further: the client is slower than the engine."""
        self._paused = True
        self._transport.pause_reading()

    def resume(self) -> None:
        """Read on. The engine is not to blame for the silence in between."""
        if self._paused:
            self._paused = False
            self.last_byte_s = monotonic()
            self._transport.resume_reading()

    def drop(self) -> None:
        """Close at once and tell nobody; the engine sees that no one waits."""
        if self.call is not None:
            self.call.upstream = None
            self.call = None
        self._transport.abort()

    def fail(self, failure: Failure, status: int | None = None) -> None:
        """The attempt is over. The connection is not used again after anything irregular."""
        call = self.call
        assert call is not None
        tokens = self.tokens_passed_on
        self.drop()
        self._attendant.attempt_failed(call, failure, status, tokens)

    def silent_for_s(self, now_s: float) -> float:
        """How long nothing has come, not counting what the client's slowness explains."""
        return 0.0 if self._paused else now_s - self.last_byte_s

    def has_said_all(self) -> bool:
        """The stream's end mark has been passed on; what is missing is the framing's end."""
        call = self.call
        if call is None or not call.events_began or call.relay.final is None:
            return False
        return self._tail.shows(call.relay.final)

    def usage(self) -> Usage:
        """What the answer has said about tokens; a stream without usage is counted by its events."""
        call, answer = self.call, self._answer
        if call is None or answer is None or answer.status != 200:
            return NOT_SAID
        usage = self._tail.usage(idle_events=call.relay.idle_events if answer.is_stream else None)
        return usage if call.transcript is None else call.transcript.settled(usage)

    @property
    def tokens_passed_on(self) -> int:
        """Of the stream that is coming in, by its events; 0 for any other answer."""
        call, answer = self.call, self._answer
        if call is None or answer is None or not answer.is_stream:
            return 0
        return self._tail.events if call.transcript is None else call.transcript.tokens

    # ---- what the transport calls ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not of that class.
        self._attendant.connected(self)

    def data_received(self, data: bytes) -> None:
        call = self.call
        if call is None:
            self._transport.abort()  # Nobody asked.
            return
        self.last_byte_s = monotonic()
        self._unread = False
        try:
            if self._answer is None:
                rest = self._read_head(data)
                if rest is None:
                    return
                data = rest
            answer = self._answer
            assert answer is not None
            flow = self._flow
            out = flow.feed(data) if data else b""
        except Malformed:
            self.fail(Failure.MALFORMED)
            return
        if self._error is not None:
            if self._error.add(out, ended=flow.ended):
                self.fail(self._error.failure, answer.status)
        elif answer.is_stream:
            self._pass_events(call, answer, out)
        else:
            self._pass_bytes(call, answer, out)

    def connection_lost(self, exc: Exception | None) -> None:
        self._attendant.lost(self)
        call = self.call
        if call is None:
            return
        answer = self._answer
        if self._error is not None and answer is not None:
            self.fail(self._error.failure, answer.status)
            return
        out = self._flow.at_eof() if answer is not None and exc is None else None
        if answer is not None and out is not None and ends_whole(call, answer, self._tail, self._held, out):
            if answer.is_stream:
                self._pass_events(call, answer, out)
            else:
                self._pass_bytes(call, answer, out)
        elif self.has_said_all():
            self._complete(call, LAST_CHUNK)
        elif self._reused and self._unread and not call.redialled:
            self.call = call.upstream = None
            call.redialled = True
            self._attendant.redial(call)
        else:
            self.fail(Failure.CUT)

    # ---- the head ----

    def _read_head(self, data: bytes) -> bytes | None:
        """The bytes after the head, once it is whole and promises an answer to pass on."""
        raw = self._head + data if self._head else data
        found = first_head(raw)
        if found is None:
            self._head = raw
            return None
        head, length, rest = found
        self._head = b""
        failure = failure_of(head.status, self.manners)
        if failure is not None and (failure is Failure.BUSY or not self.manners.busy_marks):
            self.fail(failure, head.status)
            return None
        if self.call is not None and not head.is_stream and (self.call.began or self.call.is_open):
            # The client has been promised a stream, or is in the middle of one.
            self.fail(Failure.ERROR if failure is None else failure, head.status)
            return None
        if failure is not None:
            self._error = ErrorBody(failure, self.manners)
        self._answer = head
        self._length = length
        self._flow = flow = head.flow(length)
        return rest if rest or flow.ended else None

    # ---- the body ----

    def _pass_events(self, call: Call, answer: AnswerHead, out: bytes) -> None:
        """Pass whole events on, after a look for the marks of an answer that broke off."""
        if out:
            mark = abort_in(dechunk(out) if self._flow.spans else out, self.manners)
            if mark is not None:
                self._break_off(call, out, mark)
                return
            self._tail.add(out)
            self._tail.events += out.count(b"\n\n") or 1
            if call.transcript is not None:
                out = chunk(call.transcript.pass_on(dechunk(out)))
        if self._flow.ended:
            final = call.relay.final
            if final is not None and not self._tail.shows(final):
                self._break_off(call, out, None)
            else:
                self._complete(call, out + LAST_CHUNK)
        elif out:
            if call.began:
                call.client.write(dechunk(out) if call.http10 else out)
                if call.is_taken_up:
                    call.is_taken_up = False
                    self._attendant.first_byte(call)
                else:
                    self._attendant.gap(self.last_byte_s - self._last_out_s)
            else:
                self._begin_answer(call, answer, out)
            self._last_out_s = self.last_byte_s

    def _break_off(self, call: Call, out: bytes, mark: bytes | None) -> None:
        """The engine ended early. Events before the one that shows it belong to the client; when
        nothing was passed on yet they are kept, so another replica may be tried."""
        if call.began and out:
            plain = dechunk(out)
            good = last_event_end(plain if mark is None else plain[: plain.find(mark)])
            plain = plain[:good]
            if call.transcript is not None and mark is not None:
                plain = call.transcript.pass_on(plain)
            call.client.write(plain if call.http10 else chunk(plain))
        self.fail(Failure.ABORTED)

    def _pass_bytes(self, call: Call, answer: AnswerHead, out: bytes) -> None:
        """Pass an answer on that is no stream of events."""
        ended = self._flow.ended
        if answer.is_json:
            out = self._held + out
            if not ended and len(out) <= JSON_HELD_MAX and not call.began:
                self._held = out
                return
            self._held = b""
            if ended and any(mark in out for mark in self.manners.abort_marks):
                self.fail(Failure.ABORTED)
                return
        if out:
            self._tail.add(out)
        if ended:
            self._complete(call, out + LAST_CHUNK if self._flow.chunked else out)
        elif call.began:
            call.client.write(dechunk(out) if call.http10 and self._flow.chunked else out)
        elif out:
            self._begin_answer(call, answer, out)

    def _begin_answer(self, call: Call, answer: AnswerHead, out: bytes) -> None:
        call.start_answer(answer, self._length, out, chunked=self._flow.chunked)
        self._attendant.first_byte(call)

    def _complete(self, call: Call, out: bytes) -> None:
        """The last bytes go out."""
        answer = self._answer
        assert answer is not None
        chunked = self._flow.chunked
        if call.http10 and chunked:
            out = out[: -len(LAST_CHUNK)]
        if not call.began:
            call.start_answer(answer, self._length, out, chunked=chunked)
        else:
            call.client.write(dechunk(out) if call.http10 and chunked else out)
        usage = self.usage()
        self.call = call.upstream = None
        self._rest(answer)
        self._attendant.answered(call, answer.status, usage)

    def _rest(self, answer: AnswerHead) -> None:
        """Keep the connection for another request, or close it when its state is in any doubt."""
        transport = self._transport
        clean = answer.keep_alive and self._flow.ended and not self._flow.surplus
        if not clean or transport.is_closing() or transport.get_write_buffer_size():
            transport.abort()
            return
        self.resume()
        self.resting_since_s = monotonic()
        self._attendant.at_rest(self)
