"""A controller in a process of its own, there to be killed: ``python run_fleet.py STATE_DIR MODEL COUNT``."""

import asyncio
import sys
from pathlib import Path

from engines.tiny import tiny_spec
from tidegate.adapters.registry import ADAPTERS
from tidegate.backends.local.fleet import LocalFleet
from tidegate.backends.local.model import LocalModel
from tidegate.core.effects import Launch


async def main(state_dir, model, count):
    fleet = LocalFleet([LocalModel("m", ADAPTERS["llamacpp"], tiny_spec(model))], state_dir=state_dir)
    await fleet.open(lambda event: print(type(event).__name__, getattr(event, "seen", ""), event, flush=True))
    print("open", flush=True)
    for number in range(count):
        fleet.launch(Launch(f"r{number}", "m", "a test asks"))
        # Between two orders, so that a kill may fall between two starts.
        await asyncio.sleep(0.01)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
