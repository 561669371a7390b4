"""The measured points as columns of numbers: the work of a decode step and of a prompt, and group names."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.fidelity.points import Group, Point
from tidegate.engine.architectures import ARCHITECTURES
from tidegate.engine.hardware import GPUS, Gpu
from tidegate.engine.roofline import Placement

MEAN_LENGTH = 0.9
"""Of the stated lengths: the benchmark draws them between 0.8 and 1."""
NODE_GPUS = 8
INFINIBAND_GB_PER_S = 50
"""400 Gbit/s for each GPU."""
UNPACKED = ("gpt-oss-120b", "kimi-k2.5")
"""Models whose attention stays in 16 bits when their experts are packed into 4."""


@dataclass(frozen=True, slots=True)
class Table:
    """One row a point."""

    decode: np.ndarray
    """Work of a decode step half way through the answers (columns as in ``Work``)."""
    prompt: np.ndarray
    """Work of that step with a prompt in it; of the prompt alone where prompts have their own GPUs."""
    columns: dict[str, np.ndarray]

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name]

    def __len__(self) -> int:
        return len(self.decode)


def table(points: list[Point]) -> Table:
    """The columns of all points."""
    rows = [_row(point) for point in points]
    names = rows[0][2]
    columns = {name: np.array([columns[name] for _, _, columns in rows]) for name in names}
    return Table(np.array([row[0] for row in rows]), np.array([row[1] for row in rows]), columns)


def placement(point: Point, group: Group) -> Placement:
    """That point's model on one of its groups of GPUs."""
    is_packed = point.precision in ("fp4", "int4")
    stays = is_packed and point.model in UNPACKED
    dense = not ARCHITECTURES[point.model].expert_layers
    attention = "bf16" if stays else "fp8" if is_packed and not dense else point.precision
    # vLLM keeps the cache in 16 bits unless told otherwise; the others follow the checkpoint.
    kv_bytes = 2.0 if point.backend == "vllm" or point.precision == "bf16" else 1.0
    return Placement(
        model=ARCHITECTURES[point.model],
        gpu=_linked(point.gpu, group.gpus),
        precision=point.precision,
        attention_precision=attention,
        kv_bytes=kv_bytes,
        tensor=group.tensor,
        data=group.data,
    )


def _linked(name: str, gpus: int) -> Gpu:
    """Eight GPUs share a node and its NVLink, racks of the GB kind all of theirs; beyond there is InfiniBand."""
    if gpus <= NODE_GPUS or name.startswith("gb"):
        return GPUS[name]
    return replace(GPUS[name], link_gb_per_s=INFINIBAND_GB_PER_S)


def _row(point: Point) -> tuple[tuple[float, ...], tuple[float, ...], dict[str, object]]:
    answering = placement(point, point.answers)
    prompt, output = (round(MEAN_LENGTH * length) for length in (point.prompt_tokens, point.output_tokens))
    asked = point.clients / point.answers.count
    # Every run came to its end, so that the cache is taken to be as large as engines make it at most.
    room = max(answering.kv_tokens(share=0.95, reserved_bytes=2e9) / (prompt + 0.6 * output), 1.0)
    batch = min(asked, room)
    kv_tokens = batch * (prompt + output / 2)
    decode = answering.work(batch, kv_tokens)
    if point.prompts:
        reading = placement(point, point.prompts)
        with_prompt = reading.work(0, 0, [(prompt, 0)])
        copies, data = point.prompts.count, point.prompts.data
    else:
        with_prompt = answering.work(batch, kv_tokens, [(prompt, 0)])
        copies, data = 1.0, point.answers.data
    generation = GPUS[point.gpu].generation
    return (
        decode,
        with_prompt,
        {
            "clients": float(point.clients),
            "asked": asked,
            "batch": batch,
            "prompt_tokens": float(prompt),
            "output_tokens": float(output),
            "prompt_copies": copies,
            "prompt_data": float(data),
            "is_split": point.is_split,
            "model": point.model,
            "gpu": point.gpu,
            "backend": point.backend,
            "generation": generation,
            "backend, generation": f"{point.backend}, {generation}",
            "precision, generation": f"{point.precision}, {generation}",
            "all": "all",
            "ttft_s": point.ttft_s,
            "tpot_s": point.tpot_s,
        },
    )
