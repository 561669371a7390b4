"""What a unit of work costs on today's GPUs and engines, for ``roofline``.

Fitted to 3,611 measured serving points of nine models (AIConfigurator-core 0.12, NVIDIA, 2026: vLLM 0.12 to
0.19, SGLang 0.5, TensorRT-LLM 1.0 to 1.3), of two GPU generations; ``benchmarks/fidelity`` has the fit, and
``make fidelity`` shows how far it is off for models that it has not seen. ``RANGES`` says it in short.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.engine.hardware import GPUS
from tidegate.engine.roofline import Costs


@dataclass(frozen=True, slots=True)
class Waits:
    """What a request waits beside the steps that compute it."""

    entry_s: float
    """From the client to the engine's queue and back."""
    polls: float
    """Decode steps until a new request is looked at."""


# Factors on the data sheet: weights, cache, attention, messages' bytes; then seconds for a round of messages.
_BY_GENERATION = {
    "hopper": (1.12, 1.27, 2.24, 1.39, 3.83e-6),
    "blackwell": (1.26, 1.18, 2.80, 2.56, 2.81e-6),
}
# Factors on the data sheet: reading experts, multiplying with all weights but experts', with experts'.
_BY_PRECISION = {
    ("hopper", "bf16"): (1.50, 1.86, 3.00),
    ("hopper", "fp8"): (1.44, 1.23, 5.96),
    ("hopper", "fp4"): (1.46, 1.82, 3.68),
    ("hopper", "int4"): (1.52, 1.84, 4.06),
    ("blackwell", "bf16"): (1.27, 1.78, 2.85),
    ("blackwell", "fp8"): (1.45, 1.56, 5.91),
    ("blackwell", "fp4"): (1.07, 1.70, 3.76),
    ("blackwell", "int4"): (1.74, 1.87, 7.17),
}
# Seconds: for a kernel in a graph on either generation, one launched by itself, a sequence, a step.
_BY_ENGINE = {
    "vllm": ({"hopper": 3.47e-6, "blackwell": 3.27e-6}, 8.39e-6, 6.11e-6, 0.390e-3),
    "sglang": ({"hopper": 3.53e-6, "blackwell": 3.61e-6}, 14.7e-6, 8.89e-6, 0.427e-3),
    "trtllm": ({"hopper": 3.22e-6, "blackwell": 2.82e-6}, 7.49e-6, 7.13e-6, 0.345e-3),
}
_OF_GPU = {"h100": 0.950, "h200": 1.06, "b200": 1.05, "b300": 0.969, "gb200": 0.992, "gb300": 0.988}

WAITS = {
    "vllm": Waits(entry_s=8.5e-3, polls=1.14),
    "sglang": Waits(entry_s=87.7e-3, polls=1.17),
    "trtllm": Waits(entry_s=39.2e-3, polls=5.93),
}
"""By engine."""
TEXT_S = 2.6e-6
"""Reading one token of a prompt's text."""

RANGES = {"ttft": (0.57, 2.1), "tpot": (0.82, 1.28)}
"""Of measured over predicted, for a model that is not among the nine: eight of ten points lie between."""


def costs(engine: str, gpu: str, precision: str) -> Costs:
    """For a GPU of ``hardware.GPUS`` and a precision of ``roofline.BYTES``.

    Raises:
        KeyError: nothing was measured for that engine or GPU; the message lists what was.
    """
    if engine not in _BY_ENGINE or gpu not in _OF_GPU:
        message = f"nothing was measured for {engine} on {gpu}; known are {', '.join(_BY_ENGINE)}"
        raise KeyError(f"{message} on {', '.join(_OF_GPU)}")
    generation = GPUS[gpu].generation
    weights, kv, attention, sending, messages = _BY_GENERATION[generation]
    experts, dense, routed = _BY_PRECISION[generation, precision]
    kernels, launches, sequences, steps = _BY_ENGINE[engine]
    made = Costs(
        weights_s=weights,
        experts_s=experts,
        kv_s=kv,
        dense_s=dense,
        routed_s=routed,
        attention_s=attention,
        sending_s=sending,
        messages=messages,
        kernels=kernels[generation],
        launches=launches,
        sequences=sequences,
        steps=steps,
    )
    return Costs(*(cost * _OF_GPU[gpu] for cost in made))
