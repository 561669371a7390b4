"""A published autoscaling result, run again in the simulator. ``make bench-episode`` prints it."""
