"""Replicas as processes on this machine. ``fleet`` is the backend; the other modules are its parts."""
