from tidegate.adapters.base import EngineSpec
from tidegate.core.types import ModelId
from tidegate.gateway import names_of


def specs(**adapters):
    """Models by name, each with its adapters; None for an engine that someone else runs."""
    return {
        ModelId(model): None
        if named is None
        else EngineSpec(model_name=model, weights="w", slots=1, lora={name: f"/{name}" for name in named})
        for model, named in adapters.items()
    }


def test_a_model_is_asked_for_by_its_name_and_its_adapters_by_both_of_theirs():
    assert names_of(specs(base=["red", "blue"], other=[], far=None)) == {
        "base": "base",
        "other": "other",
        "far": "far",
        "base:red": "base",
        "base:blue": "base",
        "red": "base",
        "blue": "base",
    }


def test_an_adapter_that_two_models_have_needs_its_models_name():
    assert names_of(specs(a=["red"], b=["red", "blue"])) == {
        "a": "a",
        "b": "b",
        "a:red": "a",
        "b:red": "b",
        "b:blue": "b",
        "blue": "b",
    }


def test_a_models_name_stays_its_own():
    names = names_of({**specs(a=["b", "x"]), **specs(b=[]), ModelId("a:x"): None})
    assert (names["b"], names["a:x"], names["a:b"], names["x"]) == ("b", "a:x", "a", "a")


def test_models_come_first():
    assert list(names_of(specs(a=["z"], b=["y"])))[:2] == ["a", "b"]
