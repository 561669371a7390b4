"""The emulated engine, as ``python -m tidegate.emulator``: a replica without a GPU or a download.

To whoever speaks with it, it is a vLLM: the same routes, metrics and manners. Only starting it differs.
What vLLM calls the weights is here the name of a profile, which says whose speed it has.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from tidegate.adapters import commands
from tidegate.adapters.base import EngineSpec
from tidegate.adapters.vllm import Vllm
from tidegate.core.types import Address


class Emulated(Vllm):
    """An engine that only behaves like one."""

    name = "emulated"
    # Its answers depend on the whole prompt, so a prompt with a beginning of one gets another.
    compile_cache = None
    manners = replace(Vllm.manners, continues_completions=False)

    def command(self, spec: EngineSpec, address: Address, gpus: Sequence[int]) -> list[str]:
        """With this very Python; the operator's own arguments (a cold start, faults) come last and win."""
        if spec.command is not None:
            return commands.filled(spec.command, spec, address, gpus)
        argv = [sys.executable, "-P", "-m", "tidegate.emulator", "--model", spec.model_name]
        argv += ["--host", address.host, "--port", str(address.port), "--max-sequences", str(spec.slots)]
        if spec.weights:
            argv += ["--profile", spec.weights]
        if spec.lora is not None:
            argv += ["--enable-lora", "--max-adapters", str(spec.adapter_slots)]
        return [*argv, *spec.extra_args]

    def environment(self, spec: EngineSpec, gpus: Sequence[int]) -> dict[str, str]:
        """It needs nothing."""
        return dict(spec.env or {})

    def batch_size(self, argv: Sequence[str]) -> int | None:
        """``--max-sequences N``."""
        return commands.number_after(argv, "--max-sequences")
