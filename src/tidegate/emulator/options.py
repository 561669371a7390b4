"""How one emulated engine is set up, and how its command line says so."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from tidegate.core.tiers import Tier
from tidegate.emulator import specs
from tidegate.emulator.faults import Fault
from tidegate.engine.catalogue import PROFILES, Profile, profile
from tidegate.engine.coldstart import ANY_BUILD, ColdStart, Stage, StageKind
from tidegate.engine.sequence import Limits

DEFAULT_PROFILE = "llama-3.1-8b-h100x1"

_TIMES = (
    "procurement",
    "image",
    "weights",
    "compile",
    "cached_compile",
    "kv_profiling",
    "graph_capture",
    "engine_start",
    "first_request",
    "wake",
    "sleep",
)


class OnSigterm(Enum):
    """What becomes of running answers when the process is told to end."""

    DRAIN = "drain"
    """They run to their end; new requests get 500 and health stays 200 (vLLM with a shutdown timeout)."""
    ABORT = "abort"
    """They end at once with ``finish_reason: "abort"`` and ``[DONE]`` (vLLM's default)."""
    CUT = "cut"
    """Their connections close without a word."""


def cold_start(text: str) -> ColdStart:
    """``30s`` in all, or what takes how long, such as ``procurement=90s,image=12s,weights=8s,engine_start=20s``.

    ``first_request`` is what the first request waits longer than the others; ``wake`` and ``sleep`` are those of
    a replica that is up. ``spread`` is that of each stage's time: of its logarithm, so 0.3 puts nine in ten between
    0.61 and 1.64 times what is said.

    Raises:
        ValueError: it cannot be read; the message says what is allowed.
    """
    if text and "=" not in text:
        return ColdStart(engine_start_s=specs.duration(text))
    readers: dict[str, specs.Read] = {**dict.fromkeys(_TIMES, specs.duration), "spread": specs.spread}
    times_s = specs.fields("cold-start", text, readers)
    sigma = times_s.pop("spread", 0.0)
    files = {f"{name}_gb": times_s.pop(name, 0.0) for name in ("image", "weights")}  # at 1 GB/s
    times = {f"{name}_s": found for name, found in times_s.items()}
    return ColdStart(build=ANY_BUILD, sigma=sigma, **files, **times)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatorOptions:
    """One emulated engine."""

    host: str = "127.0.0.1"
    port: int = 8000
    """0: any free port."""
    profile: str = DEFAULT_PROFILE
    """Whose speed and memory it has."""
    model: str | None = None
    """The name it answers to; the profile's model unless given."""
    time_scale: float = 1.0
    """So many times as fast as the real engine."""
    max_sequences: int | None = None
    """The batch size; the profile's unless given."""
    kv_blocks: int | None = None
    adapters: tuple[str, ...] = ()
    """LoRA adapters by the names that clients ask for instead of the model's."""
    loads_adapters: bool = False
    """More of them may be loaded by request, and any unloaded, as with a vLLM that was started with ``--enable-lora`` and
    ``VLLM_ALLOW_RUNTIME_LORA_UPDATING``."""
    max_adapters: int | None = None
    """Different ones in one step; the profile's unless given."""
    max_queued: int | None = None
    """While so many wait, more are answered 503; no limit unless given. Whoever arrives within one step
    waits too, so that a burst is turned away although there is room, as in vLLM."""
    cold_start: ColdStart = ColdStart()
    """What it waits for before it serves, in model time."""
    tier: Tier = Tier.COLD
    """What is there already when it starts."""
    sleep_mode: bool = True
    """It may be put to sleep and woken by request, as a vLLM started with ``--enable-sleep-mode``."""
    refuse_until_ready: bool = False
    """While it loads: refuse connections, as vLLM does, instead of answering 503."""
    faults: tuple[Fault, ...] = ()
    seed: int | None = None
    """Of the stages' times, when they have a spread; another one at each start unless given."""
    on_sigterm: OnSigterm = OnSigterm.DRAIN
    shutdown_timeout_s: float = 30.0
    """A drain that takes longer on the wall clock turns into an abort."""

    @property
    def model_name(self) -> str:
        return self.model or self._profile.model

    @property
    def limits(self) -> Limits:
        """The profile's limits with what was given instead."""
        limits = self._profile.limits
        return replace(
            limits,
            max_sequences=self.max_sequences or limits.max_sequences,
            kv_blocks=self.kv_blocks or limits.kv_blocks,
            max_adapters=self.max_adapters or limits.max_adapters,
        )

    @property
    def first_request_s(self) -> float:
        """What the first request waits longer than the others; nothing when the engine has run before."""
        return self.cold_start.first_request_s if self.tier in (Tier.COLD, Tier.CACHED) else 0.0

    def starting(self) -> Iterator[Stage]:
        """What it passes through before it serves. The first request's share is the first request's."""
        compiled = (ANY_BUILD,) if self.tier is Tier.CACHED else ()
        for stage in self.cold_start.stages(self.tier, compiled):
            if stage.kind is not StageKind.FIRST_REQUEST:
                yield stage

    @property
    def _profile(self) -> Profile:
        return profile(self.profile)

    def problems(self) -> Iterator[str]:
        """What cannot work, one sentence each."""
        if self.profile not in PROFILES:
            yield f"profile is {self.profile!r}; known are {', '.join(sorted(PROFILES))}"
            return
        if not 0 <= self.port <= 65_535:
            yield f"port is {self.port}; it must be from 0 (any free one) to 65535"
        if not 0 < self.time_scale <= 10_000:
            yield f"time-scale is {self.time_scale:g}; it must be above 0 and at most 10000"
        for name in ("max_sequences", "kv_blocks", "max_adapters", "max_queued"):
            value = getattr(self, name)
            if value is not None and value < 1:
                yield f"{name.replace('_', '-')} is {value}; it must be at least 1"
        yield from self.limits.problems()


def parser() -> argparse.ArgumentParser:
    """The command line of ``python -m tidegate.emulator``."""
    made = argparse.ArgumentParser(
        prog="tidegate.emulator",
        description="One emulated engine with an OpenAI API and vLLM's metrics.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = made.add_argument
    add("--host", default="127.0.0.1", help="where to listen")
    add("--port", type=int, default=8000, help="0 takes any free one")
    add("--profile", default=DEFAULT_PROFILE, help="whose speed: " + ", ".join(sorted(PROFILES)))
    add("--model", help="the name it answers to instead of the profile's model")
    add("--time-scale", type=float, default=1.0, help="so many times as fast as the real engine")
    add("--max-sequences", type=int, help="batch size instead of the profile's")
    add("--kv-blocks", type=int, help="blocks of the KV cache instead of the profile's")
    add("--lora", action="append", default=[], metavar="NAME", help="a LoRA adapter that clients may ask for")
    add("--enable-lora", action="store_true", help="adapters may be loaded and unloaded by request")
    add("--max-adapters", type=int, help="different adapters in one step")
    add("--max-queued", type=int, help="answer 503 while so many wait")
    add(
        "--cold-start",
        type=_argument(cold_start),
        metavar="TIMES",
        help="30s, or image=60s,weights=20s,first_request=2s,wake=1s,...",
    )
    add(
        "--tier",
        type=_one_of(Tier),
        default=Tier.COLD,
        metavar="TIER",
        help="what is there already when it starts: " + ", ".join(tier.value for tier in Tier),
    )
    add("--seed", type=int, help="of the stages' times, when they have a spread")
    add("--no-sleep-mode", action="store_true", help="no /sleep and no /wake_up")
    add("--refuse-until-ready", action="store_true", help="refuse connections while loading")
    add("--fault", type=_argument(Fault.parse), action="append", default=[], help="slow:factor=5,for=30s")
    add("--on-sigterm", type=_one_of(OnSigterm), default=OnSigterm.DRAIN, help="drain, abort or cut")
    add("--shutdown-timeout", type=_argument(specs.duration), default=30.0, help="the longest drain")
    return made


def options_from(argv: Sequence[str] | None) -> EmulatorOptions:
    """Read a command line. Ends the process with status 2 and a message when it cannot work."""
    made = parser()
    given = vars(made.parse_args(argv))
    given["faults"] = tuple(given.pop("fault"))
    given["adapters"] = tuple(given.pop("lora"))
    given["loads_adapters"] = given.pop("enable_lora")
    given["cold_start"] = given["cold_start"] or ColdStart()
    given["sleep_mode"] = not given.pop("no_sleep_mode")
    given["shutdown_timeout_s"] = given.pop("shutdown_timeout")
    options = EmulatorOptions(**given)
    if problems := list(options.problems()):
        made.error("; ".join(problems))
    return options


def _one_of(kind: type[Enum]) -> specs.Read:
    def reading(text: str) -> Enum:
        try:
            return kind(text)
        except ValueError:
            allowed = ", ".join(str(one.value) for one in kind)
            message = f"{text!r} is not known; allowed are {allowed}"
            raise argparse.ArgumentTypeError(message) from None

    return reading


def _argument(read: specs.Read) -> specs.Read:
    def reading(text: str) -> object:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return reading
