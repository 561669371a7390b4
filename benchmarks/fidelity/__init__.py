"""How near the models come to what was measured: ``make fidelity``."""
