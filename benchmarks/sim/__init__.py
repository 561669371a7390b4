"""How fast the simulator is, in requests for each second of CPU time. Run it with ``make bench-sim``."""
