"""Choosing a replica: filter, then pick. The one place where a richer router goes."""
