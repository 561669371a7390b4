"""Laws of placement: a place that exists is found, and no GPU ever carries more than it has."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.fleet.placement import Ground, Outlook
from tidegate.core.fleet.sizes import Size
from tidegate.core.nodes import Gpu, Node

KINDS = ("", "h100", "l40s")

sizes = st.builds(
    Size,
    gpus=st.integers(1, 4),
    price_per_h=st.just(0.0),
    kind=st.sampled_from(KINDS),
    memory_bytes=st.none() | st.sampled_from([8, 20, 30, 50]),
)
gpus = st.lists(
    st.tuples(st.none() | st.sampled_from([24, 48, 80]), st.sampled_from(KINDS)), min_size=1, max_size=6
)


@st.composite
def nodes(draw):
    return [
        Node(f"n{number}", tuple(Gpu(index, memory, kind) for index, (memory, kind) in enumerate(found)))
        for number, found in enumerate(draw(st.lists(gpus, min_size=1, max_size=3)))
    ]


class Slow:
    """The obvious version: every GPU with a list of what it carries."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.on = {(node.name, gpu.index): [] for node in nodes for gpu in node.gpus}

    def fits_on(self, node, gpu, memory_bytes):
        carried = self.on[node.name, gpu.index]
        if memory_bytes is None or gpu.memory_bytes is None or None in carried:
            return not carried
        return sum(carried) + memory_bytes <= gpu.memory_bytes

    def places(self, size):
        """Every set of GPUs on which it would fit."""
        for node in self.nodes:
            kinds = [size.kind] if size.kind else {gpu.kind for gpu in node.gpus}
            for kind in kinds:
                fitting = [
                    gpu.index
                    for gpu in node.gpus
                    if gpu.kind == kind and self.fits_on(node, gpu, size.memory_bytes)
                ]
                yield from ((node.name, chosen) for chosen in combinations(fitting, size.gpus))

    def change(self, place, by):
        for index in place.gpus:
            carried = self.on[place.node, index]
            carried.append(place.memory_bytes) if by > 0 else carried.remove(place.memory_bytes)


@given(nodes(), st.lists(sizes, max_size=3), st.lists(st.tuples(sizes, st.booleans()), max_size=12))
def test_a_place_is_found_exactly_when_an_exact_search_finds_one_and_is_one_of_them(nodes, later, steps):
    ground, slow, held = Ground(nodes, Outlook(later)), Slow(nodes), []
    for size, leaves in steps:
        if leaves and held:
            place = held.pop(0)
            ground.free(place)
            slow.change(place, -1)
        possible = set(slow.places(size))
        place = ground.find(size)
        assert (place is None) == (not possible)
        if place is not None:
            assert (place.node, place.gpus) in possible
            assert ground.fits(place)
            ground.hold(place)
            slow.change(place, +1)
            held.append(place)


whole = st.builds(Size, st.integers(1, 4), st.just(0.0), st.sampled_from(KINDS))


@given(nodes(), st.lists(whole, min_size=1, max_size=3), st.lists(whole, max_size=8))
def test_whole_gpus_are_taken_where_the_most_room_is_left_for_the_largest_that_may_come_next(
    nodes, later, steps
):
    ground, slow = Ground(nodes, Outlook(later)), Slow(nodes)
    largest = min(later, key=lambda size: (-size.gpus, size.kind))
    for size in steps:
        place = ground.find(size)
        if place is None:
            continue
        left = {chosen: _room_without(slow, chosen, largest) for chosen in slow.places(size)}
        assert left[place.node, place.gpus] == max(left.values())
        ground.hold(place)
        slow.change(place, +1)


def _room_without(slow, chosen, size):
    """How many of this size fit when these GPUs are taken."""
    found = 0
    for node in slow.nodes:
        for kind in {gpu.kind for gpu in node.gpus} & ({size.kind} if size.kind else set(KINDS)):
            free = [
                gpu
                for gpu in node.gpus
                if gpu.kind == kind
                and not slow.on[node.name, gpu.index]
                and not (node.name == chosen[0] and gpu.index in chosen[1])
            ]
            found += len(free) // size.gpus
    return found
