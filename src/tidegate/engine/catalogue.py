"""Engines whose speed is known, by name: ``MODEL-GPUxCOUNT[-PRECISION]``.

Step times are the linear law fitted to the silicon tables of AIConfigurator-core 0.12 (NVIDIA, 2026) for
vLLM: batch 1-256, contexts 128-8,192, prompts 64-16,384. ``error_ratio`` is the mean error of that fit,
decode and prefill. Rows marked otherwise say where they are from. KV blocks follow from memory:

    floor((0.92 * memory - weights / gpus - 3.5 GB) / (block tokens * KV bytes a token / gpus))

with vLLM's default share of the memory (0.92 since 0.22, 2026) and AIConfigurator's reserve for activations.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.engine.latency import LinearLaw
from tidegate.engine.sequence import Limits

MEMORY_SHARE = 0.92
RESERVED_BYTES = 3.5e9
BLOCK_TOKENS = 16


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a model's own configuration file says."""

    parameters: float
    kv_bytes_per_token: int
    """2 x layers x KV heads x head size x 2 bytes."""


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """What fits, and what vLLM makes of it."""

    memory_bytes: float
    step_tokens: int
    """vLLM's default token budget for a step on this GPU (``arg_utils.py``, 2025)."""


MODELS = {
    "llama-3.1-8b": ModelFacts(8.03e9, 131_072),
    "llama-3.1-70b": ModelFacts(70.6e9, 327_680),
    "qwen3-8b": ModelFacts(8.19e9, 147_456),
    "qwen3-32b": ModelFacts(32.8e9, 262_144),
    "codellama-34b": ModelFacts(33.7e9, 196_608),
}

GPUS = {
    "h100": GpuFacts(85.5e9, 8192),
    "h200": GpuFacts(150.7e9, 8192),
    "a100": GpuFacts(85.9e9, 2048),
    "l40s": GpuFacts(48.3e9, 2048),
    "l4": GpuFacts(24.2e9, 2048),
}


@dataclass(frozen=True, slots=True)
class Profile:
    """One engine on one kind of machine."""

    name: str
    model: str
    gpu: str
    gpus: int
    precision: str
    law: LinearLaw
    error_ratio: tuple[float, float] | None
    """Mean error of the fit for decode and prefill; None: derived, not measured."""
    source: str

    @property
    def weights_bytes(self) -> float:
        return MODELS[self.model].parameters * (1 if self.precision == "fp8" else 2)

    @property
    def kv_blocks(self) -> int:
        """Blocks that fit beside the weights."""
        memory = GPUS[self.gpu].memory_bytes
        free = MEMORY_SHARE * memory - self.weights_bytes / self.gpus - RESERVED_BYTES
        return int(free / (BLOCK_TOKENS * MODELS[self.model].kv_bytes_per_token / self.gpus))

    @property
    def limits(self) -> Limits:
        """The defaults of vLLM for this machine; 256 sequences are also where the fit ends."""
        return Limits(
            max_sequences=256,
            max_step_tokens=GPUS[self.gpu].step_tokens,
            kv_blocks=self.kv_blocks,
            block_tokens=BLOCK_TOKENS,
        )


_AICONFIGURATOR = "AIConfigurator-core 0.12 silicon tables (2026), vLLM"
_DERIVED = "derived: weights and KV bytes over 0.8 x bandwidth, prefill at half of 121 TFLOPS; not measured"
_EPISODE = (
    "qwen3-32b-h100x2 with all times 1.12 times as long, fitted to one number: llm-d's latency law settles at"
    " 1.4-1.5 requests a second a replica (4,000 in, 1,000 out), where 0.40-0.55 of the promise is used"
)
_VIDUR = "Vidur's tables (Agrawal et al., MLSys 2024), one fit over 5,167 whole steps"

# model, gpu, count, precision, a, b, c, decode error, d, e, f, prefill error
_ROWS = (
    ("llama-3.1-8b", "h100", 1, "bf16", 6.37, 0.0110, 0.0415, 0.023, 5.47, 15.6, 0.78, 0.074),
    ("llama-3.1-8b", "h200", 1, "bf16", 4.91, 0.0120, 0.0297, 0.020, 4.00, 16.3, 0.74, 0.072),
    ("llama-3.1-8b", "a100", 1, "bf16", 11.5, 0.0370, 0.0807, 0.038, 8.48, 53.4, 1.64, 0.017),
    ("llama-3.1-8b", "l40s", 1, "bf16", 22.2, 0.0366, 0.190, 0.025, 19.4, 48.0, 3.53, 0.086),
    ("llama-3.1-70b", "h100", 4, "bf16", 15.2, 0.0320, 0.0270, 0.015, 13.1, 52.3, 1.23, 0.061),
    ("llama-3.1-70b", "h100", 8, "bf16", 9.89, 0.0269, 0.0137, 0.031, 9.46, 35.4, 0.46, 0.042),
    ("llama-3.1-70b", "h200", 4, "bf16", 12.1, 0.0327, 0.0182, 0.025, 10.1, 52.6, 1.39, 0.044),
    ("llama-3.1-70b", "h200", 8, "bf16", 8.12, 0.0264, 0.0100, 0.025, 7.93, 34.2, 0.57, 0.035),
    ("llama-3.1-70b", "a100", 4, "bf16", 27.6, 0.103, 0.0553, 0.026, 20.7, 152.0, 1.65, 0.032),
    ("llama-3.1-70b", "a100", 8, "bf16", 17.2, 0.0720, 0.0278, 0.034, 13.4, 104.0, 0.04, 0.054),
    ("llama-3.1-70b", "l40s", 4, "bf16", 55.0, 1.09, 0.110, 0.016, 43.6, 1174.0, 7.8, 0.020),
    ("qwen3-8b", "h100", 1, "bf16", 6.56, 0.0116, 0.0466, 0.027, 6.60, 15.5, 0.82, 0.068),
    ("qwen3-8b", "h200", 1, "bf16", 5.05, 0.0127, 0.0334, 0.019, 5.22, 15.9, 0.81, 0.057),
    ("qwen3-8b", "a100", 1, "bf16", 11.6, 0.0380, 0.0912, 0.037, 9.66, 53.2, 1.80, 0.016),
    ("qwen3-8b", "l40s", 1, "bf16", 22.6, 0.0370, 0.215, 0.030, 20.9, 48.6, 3.61, 0.088),
    ("qwen3-32b", "h100", 2, "bf16", 13.6, 0.0239, 0.0430, 0.020, 13.6, 39.2, 1.70, 0.071),
    ("qwen3-32b", "h200", 2, "bf16", 10.7, 0.0244, 0.0293, 0.019, 10.4, 40.6, 1.62, 0.055),
    ("qwen3-32b", "a100", 2, "bf16", 24.6, 0.0900, 0.0857, 0.040, 20.3, 123.0, 3.13, 0.020),
    ("qwen3-32b", "l40s", 2, "bf16", 48.2, 0.143, 0.196, 0.029, 45.9, 172.0, 8.28, 0.054),
    ("qwen3-32b", "h100", 1, "fp8", 22.8, 0.0624, 0.0519, 0.045, 26.7, 44.2, 2.59, 0.059),
    ("qwen3-32b", "h200", 1, "fp8", 20.8, 0.0609, 0.0467, 0.044, 24.1, 44.3, 2.54, 0.046),
)


def _name(model: str, gpu: str, count: int, precision: str) -> str:
    return f"{model}-{gpu}x{count}" + ("" if precision == "bf16" else f"-{precision}")


def _fitted() -> dict[str, Profile]:
    profiles = {}
    for model, gpu, count, precision, a, b, c, decode_error, d, e, f, prefill_error in _ROWS:
        name = _name(model, gpu, count, precision)
        law = LinearLaw(a=a, b=b, c=c, d=d, e=e, f=f)
        errors = (decode_error, prefill_error)
        profiles[name] = Profile(name, model, gpu, count, precision, law, errors, _AICONFIGURATOR)
    return profiles


PROFILES: dict[str, Profile] = _fitted() | {
    "llama-3.1-8b-l4x1": Profile(
        "llama-3.1-8b-l4x1",
        "llama-3.1-8b",
        "l4",
        1,
        "bf16",
        LinearLaw(a=67, b=0.1, c=0.55, d=60, e=265, f=8),
        None,
        _DERIVED,
    ),
    "codellama-34b-a100x2": Profile(
        "codellama-34b-a100x2",
        "codellama-34b",
        "a100",
        2,
        "bf16",
        LinearLaw(a=29.97, b=0.0652, c=0.0453, d=29.97, e=127, f=37.4, g=5.7),
        (0.016, 0.016),
        _VIDUR,
    ),
    "llm-d-episode": Profile(
        "llm-d-episode",
        "qwen3-32b",
        "h100",
        2,
        "bf16",
        LinearLaw(a=15.23, b=0.0268, c=0.0482, d=15.23, e=43.9, f=1.90),
        None,
        _EPISODE,
    ),
}
"""All profiles by name."""


def profile(name: str) -> Profile:
    """The profile of that name.

    Raises:
        KeyError: there is none; the message lists those there are.
    """
    try:
        return PROFILES[name]
    except KeyError:
        message = f"profile is {name!r}; known are {', '.join(sorted(PROFILES))}"
        raise KeyError(message) from None
