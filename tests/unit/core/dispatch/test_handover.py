"""What a replica that is about to leave has cached goes over to others, one beginning at a time; and what else it gets."""

from dataclasses import replace

from tidegate.core.dispatch.routing.handover import MOVE_TOKENS
from unit.core.dispatch.routing_world import BLOCK, chain, seconds_world

HOT = chain(*range(40))
"""4,000 tokens that many prompts begin with."""
WARM = chain(*range(100, 140))
COOL = chain(*range(200, 240))


def told(world, *names, at_s=None):
    """A table comes: these are about to leave."""
    for seat in world.seats:
        seat.route = replace(
            seat.route, leaves_at_s=(at_s or world.now_s + 5) if seat.replica_id in names else None
        )
    world.tell("seats_are", world.seats, world.now_s)


def asked(beginning, own):
    return {"tokens": 4_100, "chain": beginning + chain(5_000 + own)}


def with_beginnings(*names, leaves="a"):
    """Only the one that leaves has computed any of the three."""
    world = seconds_world(*names)
    for own, beginning in enumerate((HOT, WARM, COOL), 1_000):
        world.serve(leaves, **asked(beginning, own))
    return world


def test_nobody_leaves_and_a_beginning_stays_where_it_is():
    world = with_beginnings("a", "b", "c")
    assert world.pick(**asked(HOT, 1)) == "a"


def test_the_next_request_moves_its_beginning_and_the_others_stay_until_it_is_computed():
    world = with_beginnings("a", "b")
    told(world, "a")
    assert world.pick(**asked(HOT, 1)) == "b"
    moving = world.give("b", **asked(HOT, 1))

    assert world.pick(**asked(HOT, 2)) == "a"
    assert world.pick(**asked(HOT, 1)) == "a", "not even the same prompt waits behind itself"

    world.now_s += 0.2
    world.begin("b", moving)
    assert world.pick(**asked(HOT, 3)) == "b"


def test_each_survivor_computes_one_at_a_time():
    world = with_beginnings("a", "b", "c")
    told(world, "a")
    first = world.pick(**asked(HOT, 1))
    moving = world.give(first, **asked(HOT, 1))
    second = world.pick(**asked(WARM, 1))
    assert {first, second} == {"b", "c"}
    world.give(second, **asked(WARM, 1))

    assert world.pick(**asked(COOL, 1)) == "a", "both are at it"

    world.now_s += 0.2
    world.begin(first, moving)
    assert world.pick(**asked(COOL, 2)) == first


def test_what_another_one_has_as_well_goes_there():
    world = with_beginnings("a", "b")
    world.serve("b", **asked(HOT, 50))
    for _ in range(3):
        world.give("b", 300, begun=True)  # it is not even the one with least to do

    told(world, "a")

    assert world.pick(**asked(HOT, 1)) == "b"


def test_but_not_behind_a_move():
    world = with_beginnings("a", "b")
    world.serve("b", **asked(HOT, 50))
    told(world, "a")
    moving = world.give("b", **asked(WARM, 1))

    assert world.pick(**asked(HOT, 1)) == "a"

    world.begin("b", moving)
    assert world.pick(**asked(HOT, 1)) == "b"


def test_nor_to_it_where_it_has_but_the_first_of_it():
    world = with_beginnings("a", "b")
    world.serve("b", 6_000, HOT + chain(*range(300, 320)))
    told(world, "a")
    world.give("b", **asked(WARM, 1))

    assert world.pick(6_000, HOT + chain(*range(300, 320))) == "b"


def test_when_the_one_that_computes_a_move_dies_another_one_does():
    world = with_beginnings("a", "b", "c")
    told(world, "a")
    first = world.pick(**asked(HOT, 1))
    moving = world.give(first, **asked(HOT, 1))
    world.seats = [seat for seat in world.seats if seat.replica_id != first]
    world.tell("seats_are", world.seats, world.now_s)
    world.tell("left", moving, first)

    assert world.pick(**asked(HOT, 2)) in {"b", "c"} - {first}


def test_requests_without_a_beginning_avoid_it():
    world = seconds_world("a", "b")
    world.give("b", tokens=5_000)
    told(world, "a")
    assert world.pick() == "b"
    assert world.pick(500, chain(7_000, 7_001)) == "b", "nor those with one that nobody has"


def test_where_only_it_has_room_it_is_used():
    world = with_beginnings("a", "b")
    told(world, "a")
    assert world.pick(among=["a"]) == "a"
    assert world.pick(**asked(HOT, 1), among=["a"]) == "a"


def test_when_all_are_about_to_leave_nobody_is():
    world = with_beginnings("a", "b")
    told(world, "a", "b")
    assert world.pick(**asked(HOT, 1)) == "a"


def test_a_leave_that_is_called_back_leaves_nothing_behind():
    world = with_beginnings("a", "b")
    told(world, "a")
    world.give("b", **asked(WARM, 1))
    told(world)

    assert world.pick(**asked(HOT, 1)) == "a"
    assert repr(world.picker.insight.handover) == "<Handover leaving=0 moves=0>"


def test_a_move_that_fails_is_made_again():
    world = with_beginnings("a", "b")
    told(world, "a")
    moving = world.give("b", **asked(HOT, 1))
    assert world.pick(**asked(HOT, 2)) == "a"

    world.leave("b", moving)

    assert world.pick(**asked(HOT, 3)) == "b"


def test_an_answer_in_one_piece_holds_its_move_no_longer_than_its_prompt_is_expected_to_take():
    world = with_beginnings("a", "b")
    told(world, "a")
    world.give("b", **asked(HOT, 1), streams=False)
    assert world.pick(**asked(WARM, 1)) == "a"

    world.now_s += 30.0

    assert world.pick(**asked(WARM, 1)) == "b"


def test_a_few_tokens_more_are_not_worth_a_move():
    world = seconds_world("a", "b")
    blocks = MOVE_TOKENS // BLOCK
    world.serve("a", 4_000 + BLOCK * blocks, HOT + chain(*range(500, 500 + blocks)))
    world.serve("b", 4_000, HOT)
    told(world, "a")
    world.give("b", **asked(HOT, 1))

    entry = {"tokens": 4_000 + BLOCK * blocks, "chain": HOT + chain(*range(500, 500 + blocks))}
    assert world.pick(**entry) == "b"


def test_who_leaves_is_no_home_of_what_is_hot():
    world = with_beginnings("a", "b", "c")
    insight = world.picker.insight
    for n in range(100):
        world.serve("a", **asked(HOT, 3_000 + n), took_s=0.02)
    arrived = world.entry(**asked(HOT, 1)).arrived
    found = insight.recall.walk(arrived)
    a, b, c = (insight.loads[name].bit for name in "abc")
    assert insight.copies_wanted(arrived, found)[0] == b | c

    told(world, "b")
    assert insight.copies_wanted(arrived, found)[0] == c
    told(world, "c")
    assert insight.copies_wanted(arrived, found)[0] == b
    told(world, "a")
    assert insight.copies_wanted(arrived, found)[0] == b | c
    assert a & insight.handover.going


def test_the_explanation_lists_those_it_may_go_to():
    world = with_beginnings("a", "b", "c")
    told(world, "a")
    names = {terms.replica_id for terms in world.picker.explain(world.entry(), world.seats, world.now_s)}
    assert names == {"b", "c"}
