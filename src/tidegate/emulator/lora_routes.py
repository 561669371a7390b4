"""vLLM's routes for LoRA adapters at run time: ``/v1/load_lora_adapter`` and ``/v1/unload_lora_adapter``.

Statuses and bodies are vLLM's (0.32, 2026), where they are there with ``VLLM_ALLOW_RUNTIME_LORA_UPDATING`` only: 200 with
a sentence; 400 for a name that is loaded already or a field that is missing; 404 for one that is not; 500 when the
engine cannot load it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import msgspec
from aiohttp import web

from tidegate.emulator import replies
from tidegate.emulator.faults import Fault

_USER = "InvalidUserInput"


class _Named(msgspec.Struct):
    lora_name: str = ""
    lora_path: str = ""
    load_inplace: bool = False


class LoraRoutes:
    """The adapters that may be asked for, and the handlers that change them."""

    def __init__(self, names: Iterable[str], load_s: float, stage: Callable[[], str | None]) -> None:
        """``load_s`` is on the wall clock; ``stage`` says what is being waited for while it loads, else None."""
        self.paths = {name: name for name in names}
        """By name, in the order in which they were loaded."""
        self.loads_total = 0
        self._load_s = load_s
        self._stage = stage
        self._fault: Fault | None = None

    def add_to(self, app: web.Application) -> None:
        """Put them beside the others."""
        app.router.add_post("/v1/load_lora_adapter", self._load)
        app.router.add_post("/v1/unload_lora_adapter", self._unload)

    def switch(self, is_on: bool, fault: Fault) -> None:
        """From now on, or no longer, adapters cannot be loaded."""
        self._fault = fault if is_on else None

    async def _load(self, request: web.Request) -> web.Response:
        asked = await self._read(request)
        if isinstance(asked, web.Response):
            return asked
        if not asked.lora_name or not asked.lora_path:
            return replies.error(400, "Both 'lora_name' and 'lora_path' must be provided.", _USER)
        if asked.lora_name in self.paths and not asked.load_inplace:
            return replies.error(400, f"The lora adapter '{asked.lora_name}' has already been loaded.", _USER)
        if self._fault is not None:
            return replies.error(self._fault.code, "A fault was ordered.", "InternalServerError")
        await asyncio.sleep(self._load_s)
        self.paths[asked.lora_name] = asked.lora_path
        self.loads_total += 1
        return web.Response(text=f"Success: LoRA adapter '{asked.lora_name}' added successfully.")

    async def _unload(self, request: web.Request) -> web.Response:
        asked = await self._read(request)
        if isinstance(asked, web.Response):
            return asked
        if not asked.lora_name:
            return replies.error(400, "'lora_name' needs to be provided to unload a LoRA adapter.", _USER)
        if self.paths.pop(asked.lora_name, None) is None:
            return replies.error(
                404, f"The lora adapter '{asked.lora_name}' cannot be found.", "NotFoundError"
            )
        return web.Response(text=f"Success: LoRA adapter '{asked.lora_name}' removed successfully.")

    async def _read(self, request: web.Request) -> _Named | web.Response:
        stage = self._stage()
        if stage is not None:
            return replies.loading(stage)
        try:
            return msgspec.json.decode(await request.read(), type=_Named)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return replies.error(400, str(error), "BadRequestError")
