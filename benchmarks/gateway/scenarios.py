"""What is measured, and what it should come to."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.gateway.bodies import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One way of loading a gateway."""

    name: str
    kind: Kind
    connections: int
    warm_up_s: float = 0.7
    ramp_s: float = 0.0

    @property
    def streams(self) -> bool:
        return self.kind.pace_us is not None

    def load_options(self, window_s: float) -> list[str]:
        options = {
            "--connections": self.connections,
            "--warm-up": self.warm_up_s,
            "--ramp": self.ramp_s,
            "--seconds": window_s,
            "--chunks": self.kind.chunks if self.streams else 0,
        }
        return [str(part) for option in options.items() for part in option]


PLAIN_1K = Kind("plain-1k", 1024)
SCENARIOS = (
    Scenario(name="c1-1k", kind=PLAIN_1K, connections=1),
    Scenario(name="rps-1k", kind=PLAIN_1K, connections=64),
    Scenario(name="rps-16k", kind=Kind("plain-16k", 16 * 1024), connections=64),
    # 100 chunks, one every 10 ms: a stream lasts a second, and all have begun once when the window opens. They begin
    # 2.02 ms apart, so that their chunks are spread over the 10 ms: at 2 ms they would come in five bursts.
    Scenario(
        name="paced-500",
        kind=Kind("paced-1k", 1024, pace_us=10_000),
        connections=500,
        warm_up_s=1.5,
        ramp_s=1.01,
    ),
    Scenario(name="flood-64", kind=Kind("flood-1k", 1024, pace_us=0), connections=64),
)
MEMORY = "memory"
"""Looked at after the start and after every scenario; it needs no load of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A figure of ours and its limit; ``relative_to`` names the peer whose figure it is divided by."""

    what: str
    scenario: str
    figure: str
    limit: float
    at_least: bool
    unit: str = ""
    relative_to: str | None = None

    def met_by(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit

    def ratio_of(self, value: float) -> float | None:
        """How many times better than the limit: above 1 is better, whichever way the goal points."""
        better, worse = (value, self.limit) if self.at_least else (self.limit, value)
        return better / worse if worse > 0 else None


def _faster_than(peer: str, times: float, scenario: str) -> Goal:
    return Goal(
        what=f"{scenario}, against {peer}",
        scenario=scenario,
        figure="per_s",
        limit=times,
        at_least=True,
        unit="x",
        relative_to=peer,
    )


GOALS = (
    Goal(what="requests at 1 KB", scenario="rps-1k", figure="per_s", limit=20_000, at_least=True, unit="/s"),
    Goal(
        what="requests at 16 KB", scenario="rps-16k", figure="per_s", limit=10_000, at_least=True, unit="/s"
    ),
    Goal(
        what="added latency, median, one connection",
        scenario="c1-1k",
        figure="added_p50_us",
        limit=250,
        at_least=False,
        unit="µs",
    ),
    Goal(
        what="CPU, 500 paced streams",
        scenario="paced-500",
        figure="cpu_percent",
        limit=60,
        at_least=False,
        unit="%",
    ),
    Goal(
        what="added delay of a chunk, p99, 500 paced streams",
        scenario="paced-500",
        figure="added_delay_p99_us",
        limit=2_000,
        at_least=False,
        unit="µs",
    ),
    Goal(what="memory at its peak", scenario=MEMORY, figure="peak_mb", limit=60, at_least=False, unit="MB"),
    _faster_than("envoy", 1.0, "rps-1k"),
    _faster_than("envoy", 1.0, "rps-16k"),
    _faster_than("sglang-router", 2.4, "rps-1k"),
    _faster_than("sglang-router", 2.4, "rps-16k"),
)
