"""What the emulator answers to which request: vLLM's routes and its errors. Prompts are never logged."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

from tidegate.emulator import asking, replies, wire
from tidegate.emulator.board import Board
from tidegate.emulator.faults import Fault, FaultKind, most_tokens
from tidegate.emulator.lora_routes import LoraRoutes
from tidegate.emulator.meters import STATES
from tidegate.emulator.options import EmulatorOptions
from tidegate.emulator.order_routes import OrderRoutes
from tidegate.emulator.service import Busy, Generation, Service
from tidegate.emulator.sleep_routes import SleepRoutes
from tidegate.emulator.sleeping import Sleeper

_MOST_BODY_BYTES = 64 * 2**20
_BUSY = "The engine is currently busy and cannot accept new requests. Please try again later."
_ENDING = "cannot schedule new futures after shutdown"
_SSE = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
_METRICS = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}

Read = Callable[[bytes], asking.Wanted]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Routes:
    """The handlers, and what they count."""

    def __init__(
        self,
        options: EmulatorOptions,
        service: Service,
        sleeper: Sleeper,
        board: Board,
        connections: Callable[[], int],
    ) -> None:
        self.stage: str | None = "engine_start"
        """What is being waited for; None once it serves."""
        self.is_ending = False
        self._model = options.model_name
        load_s = options.limits.adapter_load_s / options.time_scale
        self.lora = LoraRoutes(options.adapters, load_s, lambda: self.stage)
        self._loads_adapters = options.loads_adapters
        self._service = service
        self._sleeper = sleeper
        self._sleep_mode = options.sleep_mode
        self._board = board
        self._connections = connections
        self._received = 0
        self._cancelled = 0
        self._over = asyncio.Event()

    def app(self) -> web.Application:
        """The web application."""
        app = web.Application(client_max_size=_MOST_BODY_BYTES)
        app.router.add_post("/v1/chat/completions", self._generating(asking.read_chat, is_chat=True))
        app.router.add_post("/v1/completions", self._generating(asking.read_completion, is_chat=False))
        app.router.add_post("/v1/embeddings", self._embeddings)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        if self._sleep_mode:
            SleepRoutes(self._sleeper, lambda: self.stage).add_to(app)
        if self._loads_adapters:
            self.lora.add_to(app)
        OrderRoutes(self._board, self._state, self._cleared).add_to(app)
        return app

    def let_go(self) -> None:
        """End the requests that would get no answer ever."""
        self._over.set()

    # ---- answers ----

    def _generating(self, read: Read, *, is_chat: bool) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            fault = await self._received_one()
            refused = self._refusal(fault)
            if refused is not None:
                return refused
            try:
                wanted = self._checked(read(await request.read()))
                generation = self._service.submit(wanted, self._adapter(wanted))
            except asking.BadRequest as error:
                return replies.error(400, str(error), "BadRequestError")
            except KeyError:
                return self._unknown_model()
            except Busy:
                return replies.error(503, _BUSY, "ServiceUnavailableError")
            try:
                answer = wire.Answer(wanted, is_chat=is_chat)
                give = self._stream if wanted.is_stream else self._whole
                return await give(request, generation, answer, fault)
            finally:
                if not generation.is_ended:
                    self._cancelled += 1
                    self._service.end_early(generation)

        return handle

    async def _stream(
        self, request: web.Request, generation: Generation, answer: wire.Answer, fault: Fault | None
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers=_SSE)
        await response.prepare(request)
        most = most_tokens(generation.sequence.output_tokens, fault)
        sent, piece = 0, b""
        while sent < most:
            await generation.more_than(sent)
            out = min(generation.tokens_out, most)
            if out > sent:
                piece += (b"" if sent else answer.opening()) + answer.tokens(generation.words(sent, out), out)
                sent = out
            if generation.is_ended:
                break
            await response.write(piece)
            piece = b""
        is_short = sent == most < generation.sequence.output_tokens
        if is_short and fault and fault.kind is FaultKind.CUT:
            await response.write(piece)
            return replies.cut(request, response)
        await self._done(generation, is_short=is_short)
        piece += answer.ending("abort" if is_short else generation.finish_reason)
        if generation.wanted.include_usage:
            piece += answer.usage_event(sent, generation.sequence.cached_tokens)
        await response.write(piece + wire.DONE)
        return response

    async def _whole(
        self, request: web.Request, generation: Generation, answer: wire.Answer, fault: Fault | None
    ) -> web.StreamResponse:
        most = most_tokens(generation.sequence.output_tokens, fault)
        is_short = most < generation.sequence.output_tokens
        if is_short:
            generation.is_followed = True
            await generation.more_than(most - 1)
            if fault and fault.kind is FaultKind.CUT:
                return replies.cut(request, web.Response())
        await self._done(generation, is_short=is_short)
        out = min(generation.tokens_out, most)
        reason = "abort" if is_short else generation.finish_reason
        return replies.in_json(
            answer.whole(generation.words(0, out), reason, out, generation.sequence.cached_tokens)
        )

    async def _done(self, generation: Generation, *, is_short: bool) -> None:
        if is_short:
            self._service.end_early(generation)
        await generation.ended()

    async def _embeddings(self, request: web.Request) -> web.StreamResponse:
        fault = await self._received_one()
        refused = self._refusal(fault)
        if refused is not None:
            return refused
        try:
            model, prompts, is_packed = asking.read_embedding(await request.read())
            asked = [self._checked(asking.Wanted.of_embedding(model, prompt)) for prompt in prompts]
            generations = [self._service.submit(wanted, self._adapter(wanted)) for wanted in asked]
        except asking.BadRequest as error:
            return replies.error(400, str(error), "BadRequestError")
        except KeyError:
            return self._unknown_model()
        except Busy:
            return replies.error(503, _BUSY, "ServiceUnavailableError")
        try:
            for generation in generations:
                await generation.ended()
        finally:
            for generation in generations:
                self._service.end_early(generation)
        return replies.in_json(wire.embeddings(self._model, prompts, is_packed=is_packed))

    # ---- what stands before an answer ----

    async def _received_one(self) -> Fault | None:
        self._received += 1
        fault = self._board.on_request() if self.stage is None else None
        if fault and fault.kind is FaultKind.SILENT:
            await self._over.wait()
        return fault

    def _refusal(self, fault: Fault | None) -> web.Response | None:
        if self.stage is not None:
            return replies.loading(self.stage)
        if self.is_ending:
            return replies.error(500, _ENDING, "InternalServerError")
        if fault and fault.kind is FaultKind.STATUS:
            return replies.error(fault.code, "A fault was ordered.", "InternalServerError")
        return None

    def _checked(self, wanted: asking.Wanted) -> asking.Wanted:
        if wanted.model not in ("", self._model) and wanted.model not in self.lora.paths:
            raise KeyError(wanted.model)
        context, tokens = self._service.context_tokens, wanted.prompt_tokens + wanted.output_tokens()[0]
        if tokens > context:
            message = (
                f"This model's maximum context length is {context} tokens; the request asks for {tokens}."
            )
            raise asking.BadRequest(message)
        return wanted

    def _adapter(self, wanted: asking.Wanted) -> str | None:
        return wanted.model if wanted.model in self.lora.paths else None

    def _unknown_model(self) -> web.Response:
        return replies.error(404, "The model does not exist.", "NotFoundError", "model")

    # ---- everything else ----

    async def _models(self, _: web.Request) -> web.Response:
        if self.stage is not None:
            return replies.loading(self.stage)
        return replies.in_json(wire.models(self._model, self.lora.paths, self._service.context_tokens))

    async def _health(self, _: web.Request) -> web.Response:
        if self.stage is not None:
            return replies.loading(self.stage)
        return web.Response()

    async def _metrics(self, _: web.Request) -> web.Response:
        page = self._service.meters.page(self._service.engine, STATES[self._sleeper.level])
        return web.Response(body=page, headers=_METRICS)

    def _state(self) -> dict[str, object]:
        engine = self._service.engine
        return {
            "model": self._model,
            "stage": self.stage,
            "sleep_level": self._sleeper.level,
            "running": engine.running,
            "waiting": engine.waiting,
            "received_total": self._received,
            "completed_total": self._service.meters.completed_total,
            "cancelled_total": self._cancelled,
            "adapters": list(self.lora.paths),
            "adapter_loads_total": self.lora.loads_total,
            "open_connections": self._connections() - 1,  # without the one that asks
            "kv_blocks_used": engine.pool.total - engine.pool.free,
            "faults": self._board.names(),
        }

    def _cleared(self) -> None:
        self._over.set()
        self._over = asyncio.Event()
