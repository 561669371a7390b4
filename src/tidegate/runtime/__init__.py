"""The asyncio owners of the two brains: clock, journal, effects, metrics, shutdown."""
