import gzip
from contextlib import ExitStack
from pathlib import Path

import pytest

TRACES = Path(__file__).parents[3] / "shared" / "traces"


@pytest.fixture
def open_trace():
    """Opens a public trace by its path; the test is skipped where the traces are not at hand."""
    with ExitStack() as opened:

        def open_it(name):
            path = TRACES / name
            if not path.exists():
                pytest.skip(f"needs the public trace {name} in {TRACES}")
            return opened.enter_context(gzip.open(path, "rt") if path.suffix == ".gz" else path.open())

        yield open_it
