"""What must hold for a model's variants: for each what holds for a model, and what is theirs alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidegate.config.finding import Finding
from tidegate.config.model_keys import ModelKeys
from tidegate.config.problems import KeyPath
from tidegate.config.variant_keys import VariantKeys
from tidegate.core.fleet.variants import DEFAULT

_WHY = "of a model's variants the cheapest is chosen"

Rules = Callable[[KeyPath, ModelKeys], Iterator[Finding]]


def as_variant(model: ModelKeys, variant: VariantKeys) -> ModelKeys:
    """The model as it would stand in the file if this were its only way to run."""
    said = {name: getattr(variant, name) for name in VariantKeys.model_fields}
    mine = {name: value for name, value in said.items() if value is not None and name != "max_replicas"}
    if model.static is None:
        mine.pop("static", None)
    # Whose speed it has is not that of the model's own way.
    alone: dict[str, object] = {"variants": {}, "spill": None, "profile": variant.profile}
    return model.model_copy(update=mine | alone)


def addresses_of(model: ModelKeys) -> int:
    """How many engines someone else runs for the model, in all its variants."""
    return len(model.static or ()) + sum(len(variant.static or ()) for variant in model.variants.values())


def variant_findings(path: KeyPath, model: ModelKeys, rules: Rules) -> Iterator[Finding]:
    """Every rule that a variant breaks. ``rules`` are those that hold for a model; what the model itself breaks is said
    there."""
    if not model.variants:
        return
    own = {(finding.path[len(path) :], finding.message) for finding in rules(path, model)}
    for name, variant in model.variants.items():
        where = (*path, "variants", name)
        for finding in rules(where, as_variant(model, variant)):
            if (finding.path[len(where) :], finding.message) not in own:
                yield finding
        yield from _alone(path, where, model, variant)
    if model.price_per_h <= 0.0:
        price = (*path, "price")
        yield Finding(price, None, f"must be above 0/h with variants; {_WHY}", (price,))


def _alone(path: KeyPath, where: KeyPath, model: ModelKeys, variant: VariantKeys) -> Iterator[Finding]:
    if where[-1] == DEFAULT:
        yield Finding(where, None, "is what the model's own settings are called; it needs another name")
    if variant.price_per_h is not None and variant.price_per_h <= 0.0:
        yield Finding((*where, "price"), None, f"must be above 0/h; {_WHY}")
    key, other = (*where, "static"), (*path, "static")
    if model.static is not None and not variant.static:
        yield Finding(
            where,
            None,
            "needs static, as the model has it: which of the engines run in this way",
            (where, other),
        )
    elif model.static is None and variant.static is not None:
        yield Finding(key, None, "has no meaning where the model has no static; leave it out", (key, other))
    if variant.static is not None and variant.max_replicas is not None:
        most = (*where, "max_replicas")
        yield Finding(
            most, None, "has no meaning with static, which has an end of its own; leave it out", (most, key)
        )
