"""On which GPUs one more replica goes, and what is said when there is no place."""

from tidegate.core.fleet.placement import Ground, Outlook
from tidegate.core.fleet.sizes import Size
from tidegate.core.nodes import Gpu, Node, Place

GIB = 2**30


def node(name, count, kind="", memory=None, price=None):
    return Node(name, tuple(Gpu(index, memory, kind) for index in range(count)), price)


def size(gpus, kind="", memory=None):
    return Size(gpus, 0.0, kind, memory)


def ground(*nodes, next_sizes=(), kept=None):
    return Ground(nodes, Outlook(next_sizes), kept)


def put(where, *sizes):
    """One after the other; where each went."""
    found = []
    for each in sizes:
        place = where.find(each)
        if place is not None:
            where.hold(place)
        found.append(place and (place.node, place.gpus))
    return found


def test_a_small_one_goes_where_it_splits_no_room_for_a_large_one():
    where = ground(node("n1", 4), node("n2", 3), next_sizes=[size(1), size(4)])
    assert put(where, size(1), size(1), size(1)) == [("n2", (0,)), ("n2", (1,)), ("n2", (2,))]
    assert where.find(size(4)) == Place("n1", (0, 1, 2, 3))
    # There is no other place: the room for four goes, rather than the start.
    assert put(where, size(1), size(4)) == [("n1", (0,)), None]


def test_what_is_left_over_beside_a_large_one_is_used_up_first():
    where = ground(node("n1", 8), node("n2", 8), next_sizes=[size(4), size(1)])
    where.hold(Place("n1", (0, 1)))
    where.hold(Place("n2", (0, 1, 2)))
    # n1 has room for one of four and two more, n2 for one of four and one more.
    assert put(where, size(1), size(1), size(1)) == [("n2", (3,)), ("n1", (2,)), ("n1", (3,))]
    assert put(where, size(4), size(4)) == [("n1", (4, 5, 6, 7)), ("n2", (4, 5, 6, 7))]


def test_what_many_ask_is_looked_for_once_until_something_comes_or_goes():
    class Counting(Outlook):
        steps = 0

        def step(self, *asked):
            self.steps += 1
            return super().step(*asked)

    outlook = Counting([size(2)])
    where = Ground([node("n1", 2), node("n2", 2)], outlook)
    where.hold(Place("n1", (0,)))
    prices = [Size(2, float(price)) for price in range(100)]
    assert {where.find(each) for each in prices} == {Place("n2", (0, 1))}
    assert outlook.steps == 2  # each node once, whatever the price
    where.hold(Place("n2", (1,)))
    assert {where.find(each) for each in prices} == {None}
    assert {where.why_not(each) for each in prices} == {"no node has 2 free GPUs; n1 has 1, n2 has 1"}
    where.free(Place("n1", (0,)))
    assert {where.find(each) for each in prices} == {Place("n1", (0, 1))}
    where.hold(Place("n1", (0, 1)))
    assert where.why_not(prices[0]) == "no node has 2 free GPUs; n2 has 1, n1 has 0"
    assert outlook.steps == 6


def test_with_nothing_larger_to_come_the_fullest_node_is_filled_first_then_by_price_and_name():
    where = ground(node("n1", 2), node("n2", 2), node("n3", 2), next_sizes=[size(1)])
    where.hold(Place("n3", (1,)))
    assert put(where, size(1), size(1)) == [("n3", (0,)), ("n1", (0,))]
    dear, cheap = node("a", 2, price=9.0), node("b", 2, price=4.0)
    assert put(ground(dear, cheap, next_sizes=[size(1)]), size(1)) == [("b", (0,))]


def test_who_asks_for_a_kind_gets_no_other_and_who_asks_for_none_leaves_it_free():
    sizes = [size(1, "h100"), size(1)]
    where = ground(node("a", 1, "h100"), node("b", 1, "l40s"), next_sizes=sizes)
    assert put(where, size(1), size(1, "h100"), size(1, "h100")) == [("b", (0,)), ("a", (0,)), None]


def test_gpus_of_one_replica_are_on_one_node_and_of_one_kind():
    mixed = Node("n", (Gpu(0, kind="h100"), Gpu(1, kind="l40s"), Gpu(2, kind="h100")))
    where = ground(mixed, node("m", 1, "h100"))
    assert put(where, size(2), size(2)) == [("n", (0, 2)), None]
    assert put(where, size(1, "l40s")) == [("n", (1,))]


def test_memory_is_shared_and_whole_gpus_stay_whole():
    where = ground(node("n", 2, memory=80 * GIB), next_sizes=[size(1), size(1, memory=30 * GIB)])
    some = size(1, memory=30 * GIB)
    assert put(where, some, some, size(1), some) == [("n", (0,)), ("n", (0,)), ("n", (1,)), None]
    where.free(Place("n", (1,)))
    assert put(where, some) == [("n", (1,))]
    # Whoever wants one whole gets no shared one, however little is taken there.
    assert put(where, size(1)) == [None]


def test_a_gpu_of_unknown_memory_carries_one_replica():
    where = ground(node("n", 1))
    assert put(where, size(1, memory=GIB), size(1, memory=GIB)) == [("n", (0,)), None]


def test_a_small_share_leaves_the_roomier_gpu_to_a_larger_share():
    sizes = [size(1, memory=40 * GIB), size(1, memory=20 * GIB)]
    where = ground(Node("n", (Gpu(0, 80 * GIB), Gpu(1, 24 * GIB))), next_sizes=sizes)
    where.hold(Place("n", (0,), 40 * GIB))
    # GPU 0 is the fuller one, and the only one on which another 40 GiB would fit.
    assert put(where, size(1, memory=20 * GIB)) == [("n", (1,))]


def test_a_share_opens_no_empty_gpu_while_one_that_is_shared_has_room():
    sizes = [size(2), size(1, memory=20 * GIB)]
    where = ground(node("n", 2, memory=80 * GIB), next_sizes=sizes)
    small = size(1, memory=20 * GIB)
    # The first takes the room for one of two GPUs; there is none left to lose, and still GPU 1 stays whole.
    assert put(where, small, small, size(1)) == [("n", (0,)), ("n", (0,)), ("n", (1,))]


def test_a_shared_replica_of_two_gpus_has_its_share_on_both():
    where = ground(node("n", 3, memory=80 * GIB))
    two = size(2, memory=50 * GIB)
    assert put(where, two, two) == [("n", (0, 1)), None]
    assert put(where, size(1, memory=50 * GIB), size(2, memory=30 * GIB)) == [("n", (2,)), ("n", (0, 1))]


def test_a_refusal_names_the_nodes_that_come_nearest():
    where = ground(node("n1", 4, "h100"), node("n2", 4, "h100"), node("n3", 8, "l40s"))
    where.hold(Place("n1", (2,)))
    where.hold(Place("n2", (0, 1)))
    assert where.find(size(4, "h100")) is None
    assert where.why_not(size(4, "h100")) == "no node has 4 free GPUs of kind h100; n1 has 3, n2 has 2"
    assert where.why_not(size(8, "h100")) == "no node has 8 GPUs of kind h100"
    assert where.why_not(size(1, "b200")) == "no node has a GPU of kind b200"


def test_a_refusal_says_how_much_memory_was_asked_for():
    where = ground(node("n1", 1, memory=24 * GIB))
    where.hold(Place("n1", (0,), 10 * GIB))
    assert where.why_not(size(1, memory=16 * GIB)) == "no node has a GPU with 16 GiB free; n1 has 0"
    assert where.why_not(size(1, memory=80 * GIB)) == "no node has a GPU with 80 GiB"


def test_of_many_nodes_three_are_named():
    where = ground(*(node(f"n{number}", 2) for number in range(1, 6)))
    for number in range(1, 6):
        where.hold(Place(f"n{number}", (0,)))
    said = "no node has 2 free GPUs; n1 has 1, n2 has 1, n3 has 1, others no more"
    assert where.why_not(size(2)) == said


def test_on_a_node_that_is_kept_only_its_model_finds_a_place():
    where = ground(node("n1", 4), node("n2", 4), kept="n1")
    where.hold(Place("n2", (0, 1, 2, 3)))
    assert where.find(size(1)) is None
    assert where.find(size(4), is_kept_for=True) == Place("n1", (0, 1, 2, 3))
    assert where.why_not(size(1)) == (
        "no node has a free GPU; n1 has 4, n2 has 0, n1 is kept for a larger one that has waited longer"
    )


def test_the_node_on_which_the_fewest_gpus_have_to_become_free():
    where = ground(node("n1", 4), node("n2", 4), node("n3", 2))
    where.hold(Place("n1", (0, 1)))
    where.hold(Place("n2", (0,)))
    assert where.most_free(size(4)) == "n2"
    assert where.most_free(size(8)) is None


def test_gpus_that_are_not_known_hold_nothing_and_fit_nobody():
    where = ground(node("n", 1))
    where.hold(Place("elsewhere", (0,)))
    where.hold(Place("n", (7,)))
    assert where.find(size(1)) == Place("n", (0,))
    assert not where.fits(Place("n", (7,)))
