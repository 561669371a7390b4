"""How many replicas: policies propose, the autoscaler guards, the limits have the last word."""
