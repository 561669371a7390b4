"""Waiting for something to come true; a fixed sleep is either too long or too short."""

import asyncio
import time


async def wait_until(condition, within_s, describe=lambda: ""):
    """The first true value of ``condition()``; an AssertionError with ``describe()`` when there is none."""
    deadline_s = time.monotonic() + within_s
    while not (value := condition()):
        if time.monotonic() >= deadline_s:
            message = f"not within {within_s} s: {describe() or condition}"
            raise AssertionError(message)
        await asyncio.sleep(0.005)
    return value
