"""What must hold for weights, LoRA adapters, and the folders that are ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tidegate.config import weights
from tidegate.config.finding import Finding
from tidegate.config.model_keys import ModelKeys
from tidegate.config.problems import HIDDEN, KeyPath
from tidegate.config.weights_keys import Weights
from tidegate.weights.source import is_remote


def weights_findings(path: KeyPath, model: ModelKeys, keeping: Weights, base: Path) -> Iterator[Finding]:
    """Of one model: what is not there, what cannot be fetched, what its engine cannot read."""
    found = {(*path, "lora", name): (written, weights.found_adapter) for name, written in model.lora.items()}
    if model.weights is not None:
        found[(*path, "weights")] = (model.weights, weights.found)
    for where, (written, find) in found.items():
        try:
            find(written, model.engine, base)
        except ValueError as error:
            yield Finding(where, _shown(written), str(error), (where, (*path, "engine")))
            continue
        lacking = keeping.lacks(written.partition("://")[0]) if is_remote(written) else None
        if lacking is not None:
            yield Finding(where, _shown(written), lacking, (where, ("weights",)))
    if model.weights_sha256 is not None and (model.weights is None or not is_remote(model.weights)):
        where = (*path, "weights_sha256")
        message = "has a meaning only with weights that Tidegate fetches: https://, s3:// or hf://"
        yield Finding(where, None, message, (where, (*path, "weights")))


def folder_findings(folders: dict[KeyPath, str | None], base: Path) -> Iterator[Finding]:
    """Folders of ours that cannot be folders."""
    for path, written in folders.items():
        problem = None if written is None else weights.folder_problem(written, base)
        if problem is not None:
            yield Finding(path, written, problem)


def _shown(written: str) -> str:
    """An address may be signed, and hold a name and a password."""
    return HIDDEN if "?" in written or "@" in written.partition("://")[2].partition("/")[0] else written
