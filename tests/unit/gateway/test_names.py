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


def meanings(specs):
    """Each name with the model and the adapter that it stands for."""
    return {name: (named.model, named.adapter) for name, named in names_of(specs).items()}


def test_a_model_is_asked_for_by_its_name_and_its_adapters_by_both_of_theirs():
    assert meanings(specs(base=["red", "blue"], other=[], far=None)) == {
        "base": ("base", None),
        "other": ("other", None),
        "far": ("far", None),
        "base:red": ("base", "red"),
        "base:blue": ("base", "blue"),
        "red": ("base", "red"),
        "blue": ("base", "blue"),
    }


def test_an_adapter_that_two_models_have_needs_its_models_name():
    assert meanings(specs(a=["red"], b=["red", "blue"])) == {
        "a": ("a", None),
        "b": ("b", None),
        "a:red": ("a", "red"),
        "b:red": ("b", "red"),
        "b:blue": ("b", "blue"),
        "blue": ("b", "blue"),
    }


def test_a_models_name_stays_its_own():
    names = meanings({**specs(a=["b", "x"]), **specs(b=[]), ModelId("a:x"): None})
    assert (names["b"], names["a:x"]) == (("b", None), ("a:x", None))
    assert (names["a:b"], names["x"]) == (("a", "b"), ("a", "x"))


def test_models_come_first():
    assert list(names_of(specs(a=["z"], b=["y"])))[:2] == ["a", "b"]


def test_only_a_model_whose_routing_asks_for_it_has_its_prompts_hashed():
    names = names_of(specs(a=["z"], b=["y"]), uses_prefixes=lambda model: model == "a")
    assert {name for name, named in names.items() if named.uses_prefixes} == {"a", "a:z", "z"}
