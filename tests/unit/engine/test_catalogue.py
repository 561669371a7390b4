import pytest

from tidegate.engine.catalogue import PROFILES, profile


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_can_run(name):
    found = profile(name)
    assert found.name == name
    assert not list(found.limits.problems())
    assert found.source


def test_the_blocks_follow_from_the_memory():
    # 0.92 x 85.5 GB - 16.06 GB - 3.5 GB leaves 59.1 GB, at 2 MiB a block of 16 tokens.
    assert profile("llama-3.1-8b-h100x1").kv_blocks == 28_181


def test_an_unknown_profile_names_the_known_ones():
    with pytest.raises(KeyError, match=r"profile is 'gpt-9'; known are codellama-34b-a100x2, llama"):
        profile("gpt-9")
