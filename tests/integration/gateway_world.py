"""A gateway with the real dispatcher, between scripted engines and a client that writes raw bytes."""

import asyncio
import contextlib
import json
from dataclasses import dataclass, field, replace

from tidegate.adapters.base import Manners
from tidegate.config.settings import GatewaySettings
from tidegate.core.dispatch import Dispatcher
from tidegate.core.events import ModelsConfigured, StopBegun, Tick
from tidegate.core.lifecycle import State
from tidegate.core.settings import DispatchConfig
from tidegate.core.types import Address, ModelId, ModelRoute, ReplicaId, Route, RouteTable
from tidegate.gateway import Gateway, Meters, Named, server
from tidegate.runtime.clock import WallClock
from tidegate.runtime.dispatching import DispatchOwner

MODEL = "m"
CHAT = "/v1/chat/completions"
ANSWER = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": MODEL,
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9},
}


async def wait_until(condition, within_s=5.0, say=lambda: ""):
    """Return as soon as the condition holds; fail with what is known when it does not come to hold."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + within_s
    while not condition():
        if loop.time() > end_s:
            message = f"{condition} did not come to hold within {within_s} s {say()}"
            raise AssertionError(message)
        await asyncio.sleep(0.002)


def chat(stream=False, **more):
    """The body of a chat request."""
    return json.dumps({"model": MODEL, "messages": [], "stream": stream} | more).encode()


def post(body, path=CHAT, fields=(), length=True):
    """A request's bytes."""
    lines = [f"POST {path} HTTP/1.1", "host: localhost", "content-type: application/json", *fields]
    if length:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def event(content, finish=None):
    """One streamed event of a chat."""
    delta = {"content": content} if finish is None else {}
    doc = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    doc["choices"] = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + json.dumps(doc, separators=(",", ":")).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)


def chunk(payload):
    return b"%x\r\n%b\r\n" % (len(payload), payload)


def whole_stream(*contents):
    """A complete streamed answer, head and all."""
    parts = [chunk(event(content)) for content in contents]
    return STREAM_HEAD + b"".join(parts) + chunk(event("", "stop")) + chunk(DONE) + b"0\r\n\r\n"


def whole_json(document=ANSWER, status="200 OK", fields=""):
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n{fields}\r\n"
    )
    return head.encode() + body


@dataclass
class Asked:
    """A request as an engine got it, and the connection to answer it on."""

    head: bytes
    body: bytes
    writer: asyncio.StreamWriter
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    def cut(self):
        """Close as a killed process does."""
        self.writer.transport.abort()

    @property
    def fields(self):
        lines = self.head.decode().split("\r\n")[1:]
        return dict(line.split(": ", 1) for line in lines if line)


class Engine:
    """An engine that does what its script says; the script is a coroutine function of ``Asked``."""

    def __init__(self, script=None):
        self.script = script or self._answer
        self.asked = []
        self.connections = 0
        self.open = 0
        self._server = None
        self._tasks = set()

    async def start(self, port=0, tls=None):
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", port, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self):
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _answer(self, asked):
        if b'"stream":true' in asked.body.replace(b" ", b""):
            await asked.send(whole_stream("hi", "there"))
        else:
            await asked.send(whole_json())

    async def _connected(self, reader, writer):
        task = asyncio.current_task()
        self._tasks.add(task)
        self.connections += 1
        self.open += 1
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    await self._serve_one(reader, writer)
        except asyncio.CancelledError:
            pass  # The stream server of asyncio would log it as an error.
        finally:
            self.open -= 1
            self._tasks.discard(task)
            writer.transport.abort()

    async def _serve_one(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        asked = Asked(head, b"", writer)
        asked.body = await reader.readexactly(int(asked.fields.get("content-length", "0")))
        self.asked.append(asked)
        script = asyncio.ensure_future(self.script(asked))
        # The gateway sends nothing before it has its answer, so a read ends only when it goes away.
        gone = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait((script, gone), return_when=asyncio.FIRST_COMPLETED)
            if not script.done():
                asked.gone.set()
                raise ConnectionResetError
            await script
        finally:
            for task in (script, gone):
                task.cancel()
            await asyncio.wait((script, gone))


@dataclass
class Answer:
    """A response as the client got it."""

    status: int
    fields: dict
    body: bytes
    raw: bytes
    whole: bool = True
    """False when the connection ended before the body did."""

    was_reset: bool = False
    """The connection ended with a word that something is missing."""

    @property
    def error(self):
        return json.loads(self.body)["error"]


class Client:
    """Writes bytes as it is told and reads answers."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def read(self, bodiless=False):
        """One answer, with its chunks put together."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        fields = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:] if line)}
        status = int(lines[0].split()[1])
        if bodiless or status in (100, 204):
            return Answer(status, fields, b"", head)
        if "content-length" in fields:
            try:
                body = await self.reader.readexactly(int(fields["content-length"]))
            except asyncio.IncompleteReadError as error:
                return Answer(status, fields, error.partial, head + error.partial, whole=False)
            return Answer(status, fields, body, head + body)
        if fields.get("transfer-encoding") != "chunked":
            body, was_reset = await self._read_to_the_end()
            return Answer(status, fields, body, head + body, whole=not was_reset, was_reset=was_reset)
        return await self._read_chunks(status, fields, head)

    async def _read_to_the_end(self):
        body = b""
        try:
            while data := await self.reader.read(65536):
                body += data
        except ConnectionResetError:
            return body, True
        return body, False

    async def _read_chunks(self, status, fields, raw):
        body = b""
        try:
            while True:
                line = await self.reader.readuntil(b"\r\n")
                data = await self.reader.readexactly(int(line, 16) + 2)
                raw += line + data
                body += data[:-2]
                if line == b"0\r\n":
                    return Answer(status, fields, body, raw)
        except (asyncio.IncompleteReadError, ConnectionError):
            return Answer(status, fields, body, raw, whole=False)

    async def at_end(self, within_s=5.0):
        """True when the gateway closes its side without another byte."""
        try:
            return await asyncio.wait_for(self.reader.read(1), within_s) == b""
        except ConnectionError:
            return True

    def cut(self):
        """Leave without a word."""
        self.writer.transport.abort()

    async def close(self):
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


class World:
    """Everything, small and fast."""

    def __init__(
        self,
        settings=None,
        manners=None,
        slots=8,
        max_retries=2,
        rewrite=None,
        config=None,
        resumes=None,
        outlets=None,
    ):
        self.records = []
        self.reports = []
        self.meters = Meters(lambda: [MODEL])
        self.owner = DispatchOwner(
            Dispatcher(), WallClock(), self, on_report=self.reports.append, on_record=self._record
        )
        self.names = {MODEL: Named(ModelId(MODEL)), "m-adapter": Named(ModelId(MODEL), "adapter")}
        self.settings = replace(settings or GatewaySettings(), port=0)
        self.gateway = Gateway(
            self.owner,
            self.settings,
            names=lambda: self.names,
            manners=lambda engine: manners or Manners(abort_marks=(b'"finish_reason":"abort"',)),
            meters=self.meters,
            resumes=resumes,
            outlets=outlets,
            **({"rewrite": rewrite} if rewrite else {}),
        )
        self.turns = []
        self.engines = []
        self.clients = []
        self.slots = slots
        self._version = 0
        self._config = config or DispatchConfig(max_retries=max_retries)

    def turn(self, brain, now_s, event, effects):
        self.turns.append((event, effects))

    def _record(self, record):
        self.records.append(record)
        self.meters.record(record)

    async def start(self, *engines):
        self.owner.handle(ModelsConfigured({ModelId(MODEL): self._config}))
        self.engines = list(engines)
        for engine in engines:
            if not hasattr(engine, "port"):
                await engine.start()
        self.publish()
        self.host, self.port = await self.gateway.start()
        self._ticking = asyncio.create_task(self._tick())

    def publish(self, engines=None, can_serve=True):
        self._version += 1
        routes = tuple(
            Route(
                ReplicaId(f"r{number}"),
                ModelId(MODEL),
                State.SERVING,
                Address("127.0.0.1", engine.port),
                self.slots,
                "engine",
            )
            for number, engine in enumerate(self.engines if engines is None else engines)
        )
        self.owner.publish(RouteTable(self._version, (ModelRoute(ModelId(MODEL), can_serve),), routes))

    def configure(self, config):
        self.owner.handle(ModelsConfigured({ModelId(MODEL): config}))

    async def connect(self, limit=64 * 1024):
        client = Client(*await asyncio.open_connection(self.host, self.port, limit=limit))
        self.clients.append(client)
        return client

    async def ask(self, data):
        """One request on a connection of its own."""
        client = await self.connect()
        await client.send(data)
        return await client.read()

    def stop(self, within_s):
        self.owner.handle(StopBegun(self.owner.now_s() + within_s))
        self.gateway.begin_stop()

    async def _tick(self):
        while True:
            await asyncio.sleep(0.02)
            self.owner.handle(Tick())

    async def close(self):
        self._ticking.cancel()
        for client in self.clients:
            client.cut()
        await self.gateway.close()
        self.owner.cease()
        for engine in self.engines:
            await engine.stop()

    def outcomes(self):
        return [record.outcome.value for record in self.records]

    def at_rest(self):
        """Nothing is open any more, in any book."""
        return self.owner.open_requests == 0 and self.gateway.open_calls == 0


@contextlib.asynccontextmanager
async def world(*engines, **options):
    """A started world, closed at the end, in which nothing may be left open."""
    made = World(**options)
    server.SWEEP_S = 0.02  # So that limits of tenths of seconds can be tried.
    await made.start(*(engines or (Engine(),)))
    try:
        yield made
    finally:
        await made.close()
