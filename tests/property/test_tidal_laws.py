"""Laws of the default policy, whatever is reported: it answers, within bounds, and never shrinks on what is not known."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core.fleet.coldstart import Readiness
from tidegate.core.fleet.scaling.past import Past, Totals
from tidegate.core.fleet.scaling.policies import Coming, Demand, EngineSeen, Situation
from tidegate.core.fleet.scaling.policies.tidal import Tidal
from tidegate.core.scaling_settings import Scaling, ScalingPolicy
from tidegate.core.types import ReplicaId

LEAST, MOST = 0, 12
counts = st.integers(0, 500)
moments = st.fixed_dictionaries(
    {
        "after_s": st.floats(0.0, 400.0),
        "queued": counts,
        "in_flight": counts,
        "came": counts,
        "ended": counts,
        "serving": st.integers(0, MOST),
        "coming": st.lists(st.floats(0.0, 900.0), max_size=3),
        "may_shrink": st.booleans(),
        "complete": st.booleans(),
        "ttft_s": st.none() | st.floats(0.0, 100.0),
        "tpot_s": st.none() | st.floats(0.0, 1.0),
        "usage": st.none() | st.floats(0.0, 1.0),
        "start_s": st.none() | st.floats(0.5, 600.0),
    }
)


@settings(max_examples=60, deadline=None)
@given(st.lists(moments, min_size=1, max_size=60), st.booleans())
def test_it_answers_within_bounds_and_keeps_what_it_does_not_know(story, has_lengths):
    past, law = Past(), Tidal(Scaling(ScalingPolicy.TIDAL, LEAST, MOST), 1, 0.0)
    now_s, standing, totals = 0.0, 1, Totals()
    for moment in story:
        now_s += moment["after_s"]
        came, ended = totals.arrivals + moment["came"], totals.ended + moment["ended"]
        totals = Totals(came, 900 * came * has_lengths, 100 * ended * has_lengths, ended, 0)
        past.add(now_s, moment["queued"], moment["in_flight"], totals)
        there = moment["queued"] + moment["in_flight"]
        seen = Situation(
            demand=Demand(
                queued=moment["queued"],
                in_flight=moment["in_flight"],
                concurrency=there,
                peak=there,
                complete_since_s=0.0 if moment["complete"] else None,
                ttft_p90_s=moment["ttft_s"],
                tpot_p90_s=moment["tpot_s"],
                signals_at_s=now_s,
                past=past,
            ),
            standing=standing,
            min_replicas=LEAST,
            max_replicas=MOST,
            floor=int(there > 0),
            floor_by="in_use" if there else None,
            live=moment["serving"] + len(moment["coming"]),
            serving=moment["serving"],
            serving_slots=8 * moment["serving"],
            may_shrink=moment["may_shrink"],
            coming=tuple(Coming(now_s - age_s, None) for age_s in moment["coming"]),
            readiness=Readiness(moment["start_s"]),
            engines=tuple(
                EngineSeen(ReplicaId(str(n)), 1.0, moment["in_flight"], 0, moment["usage"])
                for n in range(moment["serving"])
            ),
        )
        said = law.propose(seen, now_s)
        number = max(LEAST, min(said.wanted, MOST))

        assert said.because
        assert number >= seen.floor
        assert number >= standing - 1
        if not moment["may_shrink"]:
            assert number >= standing
        standing = number
