"""Dice for tests: the same seed, the same run."""

import random


class SeededDice:
    def __init__(self, seed):
        self._random = random.Random(seed)

    def below(self, bound):
        return self._random.randrange(bound)

    def uniform(self):
        return self._random.random()
