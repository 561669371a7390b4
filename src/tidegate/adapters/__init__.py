"""One file per real engine: its start command, readiness, metric names and manners."""
