"""Seconds that engines write about their own start; nothing else of their logs is taken."""

import pytest

from tidegate.adapters.registry import ADAPTERS
from tidegate.adapters.startup import parts_of
from tidegate.core.lifecycle import Part

VLLM = """
(Worker_TP0 pid=7) INFO 05-06 20:59:57 [default_loader.py:384] Loading weights took 24.84 seconds
(Worker_TP1 pid=8) INFO 05-06 20:59:58 [default_loader.py:384] Loading weights took 25.90 seconds
INFO 05-06 21:00:40 [monitor.py:34] torch.compile takes 9.85 s in total
INFO 05-06 21:01:02 [gpu_model_runner.py:3480] Graph capturing finished in 17 secs, took 0.48 GiB
INFO:     Application startup complete.
"""
SGLANG = """
[2026-02-26 05:24:09 TP4] Load weight end. elapsed=228.09 s, type=Glm, avail mem=194.04 GB, mem usage=89.58 GB.
[2025-12-02 12:01:32] Capture cuda graph end. Time elapsed: 7.00 s. mem usage=1.93 GB.
"""


@pytest.mark.parametrize(
    "engine, log, parts",
    [
        ("vllm", VLLM, {Part.WEIGHTS: 25.90, Part.COMPILE: 9.85, Part.CAPTURE: 17.0}),
        ("vllm", "torch.compile took 104.04 s in total", {Part.COMPILE: 104.04}),
        ("sglang", SGLANG, {Part.WEIGHTS: 228.09, Part.CAPTURE: 7.0}),
        ("sglang", "Capture target decode CUDA graph end. elapsed=16.40 s", {Part.CAPTURE: 16.4}),
        ("vllm", "", {}),
        ("llamacpp", VLLM, {}),
        ("openai", VLLM, {}),
    ],
)
def test_what_is_read(engine, log, parts):
    assert dict(parts_of(log, ADAPTERS[engine].start_marks)) == parts


@pytest.mark.parametrize("log", ["Loading weights took 1e9 seconds", "Loading weights took 123456 seconds"])
def test_what_cannot_be_the_time_of_a_start_is_left_out(log):
    assert parts_of(log, ADAPTERS["vllm"].start_marks) == ()


def test_more_than_one_dot_is_no_number_and_breaks_nothing():
    assert parts_of("Loading weights took 1.2.3 seconds", ADAPTERS["vllm"].start_marks) == ()
