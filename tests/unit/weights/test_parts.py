from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tidegate.weights.parts import Parts, Ranges

SIZE = 200
spans = st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)).map(lambda pair: (min(pair), max(pair)))


@given(st.lists(spans))
def test_ranges_agree_with_a_set_of_numbers(added):
    ranges, numbers = Ranges(), set()
    for start, end in added:
        ranges.add(start, end)
        numbers |= set(range(start, end))

    assert ranges.bytes == len(numbers)
    gone = [number for start, end in ranges.missing(SIZE) for number in range(start, end)]
    assert gone == [number for number in range(SIZE) if number not in numbers]
    assert ranges.frontier == next((n for n in range(SIZE + 1) if n not in numbers), SIZE)
    # Neighbours have become one: no two ranges touch.
    found = list(ranges)
    assert all(one[1] < other[0] for one, other in pairwise(found))


@given(
    have=st.lists(spans),
    part_bytes=st.integers(1, 80),
    least_bytes=st.integers(1, 40),
    steps=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30), st.booleans()), max_size=300),
)
def test_whoever_works_how_fast_each_missing_byte_is_fetched_once(have, part_bytes, least_bytes, steps):
    """Workers take parts, do some of it, give up or go on; at the end one of them does the rest."""
    missing = Ranges(have).missing(SIZE)
    parts = Parts(missing, part_bytes, least_bytes)
    working, fetched, now_s = {}, [], 0.0

    def work(part, count):
        count = min(count, part.left)
        fetched.extend(range(part.at, part.at + count))
        part.at += count

    for worker, count, gives_up in steps:
        now_s += 0.7
        part = working.get(worker) or parts.take(now_s)
        if part is None:
            continue
        working[worker] = part
        work(part, count)
        if gives_up or part.left == 0:
            parts.done(working.pop(worker))
    for part in working.values():
        work(part, SIZE)
        parts.done(part)
    while (part := parts.take(now_s)) is not None:
        work(part, SIZE)
        parts.done(part)

    assert parts.is_done
    assert sorted(fetched) == [number for start, end in missing for number in range(start, end)]


def test_work_is_handed_out_from_the_front():
    parts = Parts([(0, 100)], part_bytes=60, least_bytes=10)

    first, second = parts.take(0.0), parts.take(0.0)

    assert (first.at, first.end) == (0, 60)
    assert (second.at, second.end) == (60, 100)


def test_the_slowest_shares_what_is_left_to_it_and_the_fast_are_left_alone():
    parts = Parts([(0, 200)], part_bytes=100, least_bytes=10)
    slow, fast = parts.take(0.0), parts.take(0.0)
    slow.at, fast.at = 20, 190

    # At 2 s: 8 s are left to one, a tenth of a second to the other.
    third = parts.take(2.0)

    assert (slow.end, third.at, third.end) == (60, 60, 100)
    fast.at = 200
    parts.done(fast)
    # Half of it again, and then it is not worth a request.
    fourth = parts.take(2.0)
    assert (slow.end, fourth.at, fourth.end) == (40, 40, 60)
    slow.at = 25
    third.at = 95
    fourth.at = 55
    assert parts.take(3.0) is None


def test_one_that_sends_nothing_shares_after_a_second():
    parts = Parts([(0, 100)], part_bytes=100, least_bytes=10)
    silent = parts.take(0.0)

    assert parts.take(1.0) is None
    helper = parts.take(1.1)

    assert (silent.end, helper.at, helper.end) == (50, 50, 100)
