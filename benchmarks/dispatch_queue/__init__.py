"""The queue, fairness and resilience of the dispatcher, measured against what they promise."""
