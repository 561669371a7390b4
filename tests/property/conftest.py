import pytest


@pytest.fixture(autouse=True)
def _pure(no_real_world):
    """Every test here decides without the world."""
