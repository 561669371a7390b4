"""Laws of the columns: what goes in comes out, in order of arrival."""

from hypothesis import given
from hypothesis import strategies as st

from tidegate.workload.arrival import Arrival
from tidegate.workload.builder import TraceBuilder

names = st.none() | st.text(min_size=1, max_size=8).filter(
    lambda text: text == text.strip() and "\n" not in text and "\r" not in text
)
counts = st.none() | st.integers(0, 2**31 - 1)
arrivals = st.builds(
    Arrival,
    arrived_s=st.floats(0, 1e7),
    prompt_tokens=counts,
    output_tokens=counts,
    model=names,
    tenant=names,
    priority=st.integers(-5, 5),
    adapter=names,
    session=names,
    prefix_hashes=st.lists(st.integers(0, 2**64 - 1), max_size=4).map(tuple),
    cached_tokens=counts,
    deadline_s=st.none() | st.floats(1e-3, 1e6),
)
plain = st.builds(
    Arrival,
    arrived_s=st.floats(0, 1e7),
    prompt_tokens=st.integers(0, 9_999),
    output_tokens=st.integers(0, 9_999),
)
rows = (
    st.lists(arrivals, max_size=12) | st.lists(plain, max_size=12) | st.lists(arrivals | plain, max_size=12)
)


def traced(arrivals):
    builder = TraceBuilder()
    for arrival in arrivals:
        builder.append(arrival)
    return builder.build()


@given(rows)
def test_a_trace_gives_back_its_rows_in_order_of_arrival(rows):
    trace = traced(rows)

    assert list(trace) == sorted(rows, key=lambda row: row.arrived_s)  # stable: ties as they came
    assert [trace[row] for row in range(len(trace))] == list(trace)
    assert trace.is_complete == all(None not in (row.prompt_tokens, row.output_tokens) for row in rows)


@given(rows, st.data())
def test_taken_rows_are_those_rows(rows, data):
    trace = traced(rows)
    kept = data.draw(
        st.lists(st.sampled_from(range(len(trace))), unique=True).map(sorted) if rows else st.just([])
    )

    assert list(trace.take(kept)) == [trace[row] for row in kept]


@given(rows)
def test_counting_from_the_first_moves_every_row_alike(rows):
    builder = TraceBuilder()
    for row in rows:
        builder.append(row)
    moved, trace = builder.build(from_first=True), traced(rows)

    assert list(moved.arrived_s) == [moment - trace.arrived_s[0] for moment in trace.arrived_s]
    assert list(moved.prompt_tokens) == list(trace.prompt_tokens)


@given(rows)
def test_a_builder_is_empty_after_building(rows):
    builder = TraceBuilder()
    for row in rows:
        builder.append(row)

    assert len(builder.build()) == len(rows)
    assert len(builder.build()) == 0
