"""The settings that were found, as a policy file with comments."""

from __future__ import annotations

from typing import Any

import yaml

from tidegate.config.kinds import AUTO
from tidegate.config.units import format_duration
from tidegate.core.scaling_settings import Promise
from tidegate.planner.trial import Settings


def written(
    document: dict[str, Any], model: str, settings: Settings, promise: Promise, remarks: list[str]
) -> str:
    """The document with these settings of one model, and what its law is told of the promise. Comments of the file
    that the document came from are not kept."""
    entry = document["models"][model]
    scaling = dict(entry.get("scaling") or {})
    if scaling.get("policy") != settings.policy.value:
        for key in ("law", "also", "thresholds"):
            scaling.pop(key, None)
    target = settings.concurrency_target
    entry["scaling"] = scaling | {
        "policy": settings.policy.value,
        "min_replicas": settings.min_replicas,
        "max_replicas": settings.max_replicas,
        "window": format_duration(settings.window_s),
        "scale_down_delay": format_duration(settings.scale_down_delay_s),
        "concurrency_target": AUTO if target is None else target,
        "promise": {
            "ttft": format_duration(round(promise.ttft_s * settings.margin, 3)),
            "tpot": format_duration(round(promise.tpot_s * settings.margin, 4)),
        },
    }
    head = "".join(f"# {remark}\n" for remark in remarks)
    return head + yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
