"""The measured serving points as facts: which model on which GPUs, how many clients, what was measured.

The file was put together from four dumps of a public database that do not code parallelism alike. Three
things are put right, each seen from rows that appear in two dumps with the same measured figures:

1. Two dumps multiply the GPUs of attention by those of the experts: ``tp 64, ep 8`` is the run that the
   others call ``tp 8, ep 8``, and ``tp 4, dp 4, ep 16`` is ``tp 4, ep 4``.
2. Where prompts and answers have GPUs of their own, most rows leave out how many groups of each there
   are and whether attention is data parallel. Groups are taken from the stated rows that are nearest in
   GPUs, clients and lengths; 16 GPUs and more are taken as data parallel, as all stated ones are.
3. Rows of racks that state one number of GPUs from 12 to 72 state the whole deployment, prompts and all.

Rows called DeepSeek-V3 are DeepSeek-R1's measured a single time: one model here. Of DeepSeek's, only the
rows of one dump are known to decode plainly. Others may predict several tokens a step, which no column
tells; they are judged like all, but nothing is calibrated on them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import exp, log, log2
from pathlib import Path

from benchmarks.fidelity import traces

MODELS = {
    "DeepSeek-R1": "deepseek-v3",
    "DeepSeek-V3": "deepseek-v3",
    "DeepSeek-V3.1": "deepseek-v3",
    "MiniMax-M2.5": "minimax-m2.5",
    "gpt-oss-120b": "gpt-oss-120b",
    "Llama-3.1-70B": "llama-3.1-70b",
    "Llama-3.1-8B": "llama-3.1-8b",
    "Qwen3.5-397B-A17B": "qwen3.5-397b-a17b",
    "Qwen3-235B-A22B": "qwen3-235b-a22b",
    "Qwen3-32B": "qwen3-32b",
    "Kimi-K2.5": "kimi-k2.5",
    "GLM-5": "glm-5",
}
"""Architectures by the last part of a model's path, without what is said of its training and precision."""
PRECISIONS = {"": "bf16", "fp8_block": "fp8", "nvfp4": "fp4", "int4_wo": "int4"}
PLAIN_DUMP = "db-dump"
MULTIPLYING = (PLAIN_DUMP, "2026-04-06")
WHOLE_RACK = 12
DATA_PARALLEL = 16
UNKNOWN = 0.0
"""Copies of a group that no column tells."""


@dataclass(frozen=True, slots=True)
class Group:
    """GPUs that run one copy of the model."""

    tensor: int
    data: int
    count: float = 1.0
    """Copies."""

    @property
    def gpus(self) -> int:
        return self.tensor * self.data


@dataclass(frozen=True, slots=True)
class Point:
    """One row."""

    name: str
    model: str
    gpu: str
    backend: str
    precision: str
    prompt_tokens: int
    output_tokens: int
    clients: int
    answers: Group
    """Where answers are decoded; prompts too, unless they have a group of their own."""
    prompts: Group | None
    is_guessed: bool
    """The number of copies is."""
    source: str
    ttft_s: float
    tpot_s: float

    @property
    def is_split(self) -> bool:
        """Prompts and answers have GPUs of their own."""
        return self.prompts is not None

    @property
    def measured(self) -> tuple[float, float]:
        return self.ttft_s, self.tpot_s


def read(path: Path) -> list[Point]:
    """All rows of the file, in its order."""
    points = [_point(row) for row in traces.rows(path)]
    stated = [point for point in points if point.is_split and not point.is_guessed]
    return [point if point.answers.count else _with_copies(point, stated) for point in points]


def plain(points: list[Point]) -> list[bool]:
    """For each whether it surely decodes one token a step."""
    twins = {point.measured for point in points if point.source == PLAIN_DUMP}
    return [point.model != "deepseek-v3" or point.measured in twins for point in points]


def _point(row: dict[str, str]) -> Point:
    origin = row["silicon_data_source"]
    source = (
        PLAIN_DUMP if origin.startswith(PLAIN_DUMP) else "2026-04-06" if "2026-04-06" in origin else "other"
    )
    answers, prompts, is_guessed = _groups(row, source)
    clients = re.search(r"silicon_concurrency=(\d+)", origin)
    batch = _whole(row["batch_size"] or row["decode_batch_size"])
    precision = row["precision"] or row["gemm_quant_mode"]
    return Point(
        name=row["id"],
        model=MODELS[re.sub(r".*/|-(Instruct|FP8|NVFP4)\b", "", row["model_path"])],
        gpu=row["system"].removesuffix("_sxm"),
        backend=row["backend"],
        precision=PRECISIONS.get(precision, precision),
        prompt_tokens=int(row["isl"]),
        output_tokens=int(row["osl"]),
        clients=int(clients[1]) if clients else round(batch * answers.data * (answers.count or 1)),
        answers=answers,
        prompts=prompts,
        is_guessed=is_guessed,
        source=source,
        ttft_s=float(row["silicon_ttft_ms"]) / 1e3,
        tpot_s=float(row["silicon_tpot_ms"]) / 1e3,
    )


def _groups(row: dict[str, str], source: str) -> tuple[Group, Group | None, bool]:
    if row["mode"] == "agg":
        tensor, data = _whole(row["tp_size"]), _whole(row["attention_dp_size"])
        experts = _whole(row["moe_ep_size"])
        if source in MULTIPLYING and experts > 1:
            if tensor > 1 and data > 1:
                data = 1
            elif tensor > 1:
                tensor //= experts
            else:
                data //= experts
        # Some rows leave out over how many groups attention is spread; the experts' GPUs tell.
        experts_gpus = _whole(row["moe_tp_size"]) * experts
        if not row["attention_dp_size"] and experts_gpus > tensor:
            data = experts_gpus // tensor
        if tensor >= WHOLE_RACK:
            return *_halves(tensor), True
        return Group(tensor, data), None, False
    answers = Group(
        _whole(row["decode_tp_size"]),
        _whole(row["decode_attention_dp_size"]),
        _whole(row["decode_num_workers"]),
    )
    prompts = Group(
        _whole(row["prefill_tp_size"]),
        _whole(row["prefill_attention_dp_size"]),
        _whole(row["prefill_num_workers"]),
    )
    if row["decode_num_workers"]:
        return answers, prompts, False
    if answers == prompts and answers.gpus >= WHOLE_RACK and row["system"].startswith("gb"):
        return *_halves(answers.gpus), True
    answers, prompts = replace(answers, count=UNKNOWN), replace(prompts, count=UNKNOWN)
    experts_are_spread = row["prefill_moe_ep_size"] != "1"
    return _spread(answers, DATA_PARALLEL), _spread(prompts, 2) if experts_are_spread else prompts, True


def _halves(gpus: int) -> tuple[Group, Group]:
    """A deployment of so many GPUs: one half answers together, the other reads prompts by fours."""
    return Group(1, gpus // 2), Group(1, 4, gpus / 8)


def _spread(group: Group, from_gpus: int) -> Group:
    is_one = group.data == 1 and group.tensor >= from_gpus
    return replace(group, tensor=1, data=group.tensor) if is_one else group


def _with_copies(point: Point, stated: list[Point]) -> Point:
    """The geometric mean of the seven nearest; what was measured plays no part."""
    nearest = sorted(stated, key=lambda other: _distance(point, other))[:7]

    def mean(counts: list[float]) -> float:
        return exp(sum(map(log, counts)) / len(counts))

    assert point.prompts is not None
    return replace(
        point,
        answers=replace(point.answers, count=mean([one.answers.count for one in nearest])),
        prompts=replace(point.prompts, count=mean([one.prompts.count for one in nearest if one.prompts])),
    )


def _distance(point: Point, other: Point) -> float:
    return (
        2 * abs(log2(point.answers.gpus / other.answers.gpus))
        + abs(log2(point.clients / other.clients))
        + (point.prompt_tokens != other.prompt_tokens)
        + (point.gpu[:2] != other.gpu[:2])
        + (point.backend != other.backend) / 2
    )


def _whole(text: str) -> int:
    return max(int(float(text or 1)), 1)
