import re

import pytest

from tidegate.emulator.faults import Fault, FaultKind
from tidegate.emulator.options import EmulatorOptions, cold_start
from tidegate.engine.coldstart import Stage, StageKind


@pytest.mark.parametrize(
    "text,fault",
    [
        ("slow:factor=5,for=30s", Fault(FaultKind.SLOW, factor=5.0, for_s=30.0)),
        ("hang:after=3", Fault(FaultKind.HANG, after_requests=3)),
        ("crash:after=10s", Fault(FaultKind.CRASH, after_s=10.0)),
        ("refuse:for=500ms", Fault(FaultKind.REFUSE, for_s=0.5)),
        ("cut:after_tokens=5,every=3", Fault(FaultKind.CUT, after_tokens=5, every=3)),
        ("abort:after_tokens=5", Fault(FaultKind.ABORT, after_tokens=5)),
        ("status:code=429,every=2", Fault(FaultKind.STATUS, code=429, every=2)),
        ("silent", Fault(FaultKind.SILENT)),
    ],
)
def test_faults_are_read(text, fault):
    assert Fault.parse(text) == fault


@pytest.mark.parametrize(
    "text,said",
    [
        ("", "fault is ''; allowed are slow, hang, crash, refuse, cut, abort, status, silent"),
        ("slow:speed=2", "fault slow: 'speed' is not known; allowed are factor, after, for"),
        ("slow:factor", "fault slow: factor is ''; it must be a number above 0"),
        ("slow:factor=-1", "fault slow: factor is '-1'; it must be a number above 0"),
        ("slow:factor=2,factor=3", "fault slow: factor is given twice"),
        ("refuse:for=5", "fault refuse: for is '5'; it must be a duration such as 30s or 500ms"),
        (
            "hang:after=soon",
            "fault hang: after is 'soon'; it must be a number of requests such as 3, or a dur",
        ),
        ("cut:after_tokens=0", "fault cut: after_tokens is '0'; it must be a whole number from 1"),
        ("status:code=200", "fault status: code is '200'; it must be an HTTP status from 400 to 599"),
        ("crash:for=1s", "fault crash: 'for' is not known; allowed are after"),
    ],
)
def test_a_fault_that_cannot_be_read_says_what_is_allowed(text, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        Fault.parse(text)


def test_a_cold_start_is_one_span_or_its_stages_in_order():
    assert cold_start("30s").stages() == (Stage(StageKind.ENGINE_START, 30.0),)
    assert cold_start("weights=8s,procurement=1.5m").stages() == (
        Stage(StageKind.PROCUREMENT, 90.0),
        Stage(StageKind.WEIGHTS, 8.0),
    )
    with pytest.raises(ValueError, match="cold-start: weights is '8'; it must be a duration"):
        cold_start("weights=8")
    with pytest.raises(ValueError, match="cold-start: spread is '3'; it must be a number from 0 to 2"):
        cold_start("weights=8s,spread=3")
    assert cold_start("weights=8s,spread=0.3").sigma == 0.3


def test_a_cold_start_knows_what_comes_after_it():
    times = cold_start("weights=8s,first_request=2s,wake=3s,sleep=1s")
    assert (times.first_request_s, times.sleep_s) == (2.0, 1.0)
    assert sum(stage.median_s for stage in times.waking(level=1)) == 3.0
    assert sum(stage.median_s for stage in times.waking(level=2)) == 11.0


def test_all_problems_are_told_at_once():
    problems = list(EmulatorOptions(port=70_000, time_scale=-1, kv_blocks=0, max_queued=-2).problems())
    assert len(problems) == 4
    assert problems[0] == "port is 70000; it must be from 0 (any free one) to 65535"
