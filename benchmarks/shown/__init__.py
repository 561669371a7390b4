"""What the product promises, shown at full size: the stories of ``tests/system``, one after the other.

It prints one table of figures beside their bounds and writes ``build/bench/shown.json``.
"""

import sys
from pathlib import Path

# The stories are the tests' own. What is shown here and what is tested can't differ.
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
