"""``python -m tidegate.emulator``: light enough to be started by the dozen."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from tidegate.emulator.options import options_from
from tidegate.emulator.server import run


def main(argv: Sequence[str] | None = None) -> int:
    """Serve as the command line says; 1 when the port is taken."""
    options = options_from(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        run(options)
    except OSError as error:
        sys.stderr.write(f"{options.host}:{options.port}: {error.strerror or error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
