import pytest

from benchmarks.fidelity.traces import Absent, folder


@pytest.fixture
def needs_trace():
    """Skips the test where a public trace is not at hand."""

    def need(name):
        try:
            folder(name)
        except Absent as absent:
            pytest.skip(str(absent))

    return need
