"""Examples run as they stand on the page."""

import itertools

import pytest

from docs.pages import PAGES, blocks
from tidegate.adapters.base import Adapter, EngineMetrics, EngineSpec, Readiness
from tidegate.core.types import Address

GUIDES = ["docs/add-an-adapter.md", "docs/add-a-routing-policy.md", "docs/add-a-scaling-policy.md"]


def run(name):
    """The names that the page's one example defines."""
    (code,) = blocks(PAGES[name], "python")
    names = {}
    exec(compile(code, name, "exec"), names)
    return names


@pytest.mark.parametrize("name", GUIDES)
def test_an_example_is_whole_and_under_thirty_lines(name):
    (code,) = blocks(PAGES[name], "python")

    assert len([line for line in code.splitlines() if line.strip()]) < 30
    run(name)


def test_the_example_adapter_is_an_adapter():
    pond = run("docs/add-an-adapter.md")["Pond"]()
    spec = EngineSpec("m", "w.bin", slots=4, extra_args=("--deep",))
    wanted = {part for part in vars(Adapter) if not part.startswith("_")}

    assert wanted <= set(dir(pond))
    assert pond.batch_size(pond.command(spec, Address("127.0.0.1", 9), ())) == 4
    assert pond.metrics("pond_running 3\npond_waiting NaN\n") == EngineMetrics(running=3)
    assert pond.metrics("<html>") == EngineMetrics()
    assert pond.readiness(503, b"") is Readiness.LOADING
    assert pond.probe("m").path == "/v1/completions"
    assert pond.rewrite(b"{}", spec) == b"{}"


def test_the_example_scaling_policy_keeps_the_rules():
    names = run("docs/add-a-scaling-policy.md")
    policy, demand, situation = names["policy"], names["Demand"], names["Situation"]

    def wanted(peak, standing, floor, may_shrink):
        seen = situation(
            demand(concurrency=peak, peak=peak), standing, 0, 9, floor=floor, may_shrink=may_shrink
        )
        return policy.propose(seen, 1.0).wanted

    for standing, floor in itertools.product(range(5), (0, 1)):
        asked = [wanted(peak, standing, floor, may_shrink=True) for peak in range(60)]
        assert asked == sorted(asked)
        assert min(asked) >= floor
        assert min(wanted(peak, standing, floor, may_shrink=False) for peak in range(60)) >= standing


def test_make_serve_runs_the_file_that_the_readme_shows():
    assert "examples/smollm2-llamacpp.yaml" in PAGES["README.md"]
