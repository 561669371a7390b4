"""How fast this machine runs plain Python now, so that figures of different days and machines can be compared.

The loop is the simplest there is: a range, an addition, a local name. A machine that is slowed down, by others
or by its own heat, runs it as much slower as it runs the simulator.
"""

from __future__ import annotations

import time

LOOP = "for i in range(5_000_000): x += i"
TURNS = 5_000_000


def turns_per_cpu_s() -> float:
    """Turns of ``LOOP`` for each second of CPU time, run once."""
    began_s = time.process_time()
    x = 0
    for i in range(TURNS):
        x += i
    took_s = time.process_time() - began_s
    assert x == TURNS * (TURNS - 1) // 2
    return TURNS / took_s
