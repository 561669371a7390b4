"""The block pool against the slow, obvious one: a list of free blocks, oldest first."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tidegate.engine.kv import BlockPool

TOTAL = 12
names = st.lists(st.integers(0, 9), min_size=1, max_size=5, unique=True)


class PoolMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.pool = BlockPool(TOTAL)
        self.line = [None] * TOTAL  # free blocks by name, oldest first
        self.uses = {}
        self.held = []  # of each sequence: nameless blocks, names

    @rule(wanted=names, more=st.integers(0, 4))
    def begin(self, wanted, more):
        hits = self.pool.hits(wanted)
        shared, new = wanted[:hits], wanted[hits:]
        assert all(name in self.uses or name in self.line for name in shared)
        assert not new or (new[0] not in self.uses and new[0] not in self.line)
        if len(new) + more + self.pool.idle(shared) > self.pool.free:
            return
        self.pool.share(shared)
        for name in shared:
            if name in self.line:
                self.line.remove(name)
            self.uses[name] = self.uses.get(name, 0) + 1
        self.pool.take(len(new) + more)
        del self.line[: len(new) + more]
        named = self.pool.named(new)
        assert named == [name for name in new if name not in self.uses and name not in self.line]
        self.uses |= dict.fromkeys(named, 1)
        self.held.append((len(new) - len(named) + more, shared + named))

    @rule(which=st.integers(0, 20))
    def end(self, which):
        if not self.held:
            return
        nameless, named = self.held.pop(which % len(self.held))
        self.pool.give_back(nameless, named)
        self.line += [None] * nameless
        for name in reversed(named):
            self.uses[name] -= 1
            if not self.uses[name]:
                del self.uses[name]
                self.line.append(name)

    @invariant()
    def used_and_free_are_all(self):
        used = len(self.uses) + sum(nameless for nameless, _ in self.held)
        assert used + self.pool.free == TOTAL
        assert self.pool.free == len(self.line)

    @invariant()
    def the_same_names_are_cached(self):
        for name in range(10):
            assert self.pool.hits([name]) == (name in self.uses or name in self.line)


TestBlockPool = PoolMachine.TestCase
TestBlockPool.settings = settings(max_examples=60, stateful_step_count=25)
