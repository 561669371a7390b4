"""Weights on this machine: where they come from, how they get here, what is kept.

Its own process does the fetching (``python -m tidegate.weights``): a gigabyte a second through the event
loop that relays answers would be felt in every stream.
"""
