"""Real models for whoever tests with real engines: import the fixtures you need into your conftest."""

import pytest

from engines.tiny import tiny_gguf, tiny_lora


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """The path of the half-megabyte model."""
    return tiny_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


@pytest.fixture(scope="session")
def tiny_adapters(tmp_path_factory):
    """Two adapters for it, by name."""
    folder = tmp_path_factory.mktemp("adapters")
    return {
        name: str(tiny_lora(folder / f"{name}.gguf", seed)) for seed, name in enumerate(("red", "blue"), 1)
    }
