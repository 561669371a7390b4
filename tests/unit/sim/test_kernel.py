"""Virtual time: order, ties, alarms that move."""

from tidegate.sim.kernel import Kernel, SeededDice


def test_what_is_due_together_happens_in_the_order_of_scheduling():
    kernel, seen = Kernel(), []
    kernel.at(5.0, lambda: seen.append("second"))
    kernel.at(2.0, lambda: seen.append("first"))
    kernel.at(5.0, lambda: seen.append("third"))

    kernel.run([], lambda row: None)

    assert seen == ["first", "second", "third"]
    assert kernel.now_s == 5.0


def test_arrivals_come_before_alarms_of_the_same_moment():
    kernel, seen = Kernel(), []
    kernel.at(1.0, lambda: seen.append("alarm"))

    kernel.run([0.5, 1.0, 1.0], lambda row: seen.append(row))

    assert seen == [0, 1, 2, "alarm"]


def test_an_alarm_that_is_moved_rings_once_at_its_last_moment():
    kernel, rung = Kernel(), []
    alarm = kernel.alarm(lambda: rung.append(kernel.now_s))
    alarm.set(3.0)
    alarm.set(7.0)
    alarm.set(4.0)

    kernel.run([], lambda row: None)

    assert rung == [4.0]


def test_a_cancelled_alarm_is_silent_and_can_be_set_again():
    kernel, rung = Kernel(), []
    alarm = kernel.alarm(lambda: rung.append(kernel.now_s))
    alarm.set(3.0)
    kernel.at(1.0, alarm.cancel)
    kernel.at(5.0, lambda: alarm.set(6.0))

    kernel.run([], lambda row: None)

    assert rung == [6.0]


def test_a_moment_that_has_passed_means_now():
    kernel, rung = Kernel(), []
    alarm = kernel.alarm(lambda: rung.append(kernel.now_s))
    kernel.at(5.0, lambda: alarm.set(2.0))

    kernel.run([], lambda row: None)

    assert rung == [5.0]


def test_a_period_does_not_drift_and_ends_with_the_run():
    kernel, rung = Kernel(), []

    def ring():
        rung.append(kernel.now_s)
        if len(rung) == 10_000:
            kernel.stop()

    kernel.every(0.1, ring)
    kernel.run([], lambda row: None)

    assert rung[-1] == 1_000.0
    assert len(rung) == 10_000


def test_the_same_seed_gives_the_same_numbers():
    one, other = SeededDice(4), SeededDice(4)

    assert [one.below(100) for _ in range(5)] == [other.below(100) for _ in range(5)]
    assert [one.uniform() for _ in range(5)] == [other.uniform() for _ in range(5)]
    assert SeededDice(4).uniform() != SeededDice(5).uniform()
