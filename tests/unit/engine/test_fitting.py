import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.engine.fitting import StepSample, fitted
from tidegate.engine.latency import LinearLaw

TRUE = LinearLaw(a=6.0, b=0.02, c=0.05, d=6.0, e=15.0, f=0.8, g=1.6)


def measured(law, steps, noise=()):
    wrong_by = dict(enumerate(noise))
    return [
        StepSample(
            took_s=law.mixed_s(sequences, kv_tokens, chunks) * (1 + wrong_by.get(number, 0.0)),
            sequences=sequences,
            kv_tokens=kv_tokens,
            new_tokens=sum(new for new, _ in chunks),
            new_squares=sum(new * new for new, _ in chunks),
            new_times_cached=sum(new * cached for new, cached in chunks),
        )
        for number, (sequences, kv_tokens, chunks) in enumerate(steps)
    ]


STEPS = [
    (sequences, sequences * length, chunks)
    for sequences in (1, 8, 64)
    for length in (100, 2000)
    for chunks in ([], [(512, 0)], [(1500, 4000)], [(200, 0), (700, 1000)])
]


def test_a_law_is_found_again_from_its_own_steps():
    found, error_ratio = fitted(measured(TRUE, STEPS))

    assert error_ratio == pytest.approx(0, abs=1e-9)
    for name in "abcdefg":
        assert getattr(found, name) == pytest.approx(getattr(TRUE, name), rel=1e-6)


def test_what_was_never_seen_has_no_weight():
    found, error_ratio = fitted(measured(TRUE, [step for step in STEPS if not step[2]]))

    assert (found.e, found.f, found.g) == (0, 0, 0)
    assert found.c == pytest.approx(TRUE.c)
    assert error_ratio == pytest.approx(0, abs=1e-9)


@given(st.lists(st.floats(-0.3, 0.3), min_size=len(STEPS), max_size=len(STEPS)))
def test_noise_never_makes_a_step_faster_for_having_more_to_do(noise):
    found, error_ratio = fitted(measured(TRUE, STEPS, noise))

    assert min(getattr(found, name) for name in "abcdefg") >= 0
    assert error_ratio < 0.5


@pytest.mark.parametrize("samples", [[], [StepSample(took_s=0.0)]])
def test_nothing_to_fit_is_refused(samples):
    with pytest.raises(ValueError, match="steps to fit"):
        fitted(samples)
