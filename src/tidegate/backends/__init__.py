"""Ways to start and stop replicas. Backends do not know each other."""
