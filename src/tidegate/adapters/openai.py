"""Any server that speaks OpenAI's API and about which nothing more is known.

It is started by the operator's command, or found running. It has no metrics page that could be read,
so what it carries is known from the gateway's own ledger alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.adapters import commands, openai_api
from tidegate.adapters.base import EngineMetrics, EngineSpec, Manners
from tidegate.adapters.startup import NO_MARKS
from tidegate.core.types import Address


class OpenAI:
    """An OpenAI-compatible server."""

    name = "openai"
    manners = Manners(abort_marks=openai_api.ABORT_MARKS)
    metrics_path = None
    sleep_api = None
    lora_api = None
    sleep_check_path = None
    compile_cache = None
    start_marks = NO_MARKS
    probe = staticmethod(openai_api.chat_probe)
    readiness = staticmethod(openai_api.token_readiness)
    is_sleeping = staticmethod(openai_api.never_sleeps)

    def command(self, spec: EngineSpec, address: Address, gpus: Sequence[int]) -> list[str]:
        """The operator's command.

        Raises:
            ValueError: there is none.
        """
        if spec.command is None:
            message = (
                f"model {spec.model_name!r}: the openai adapter knows no engine to start; give a command"
            )
            raise ValueError(message)
        return commands.filled(spec.command, spec, address, gpus)

    def environment(self, spec: EngineSpec, gpus: Sequence[int]) -> dict[str, str]:
        """Nothing but what the operator set."""
        return dict(spec.env or {})

    def batch_size(self, argv: Sequence[str]) -> int | None:
        """By any engine's flag that says it."""
        flags = (
            "--max-num-seqs",
            "--max-running-requests",
            "--max_batch_size",
            "-np",
            "--parallel",
            "--slots",
        )
        return commands.number_after(argv, *flags)

    def metrics(self, page: str) -> EngineMetrics:
        """Nothing is known."""
        return EngineMetrics()

    def rewrite(self, body: bytes, spec: EngineSpec | None) -> bytes:
        """As the client sent it."""
        return body
