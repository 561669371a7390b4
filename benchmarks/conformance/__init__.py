"""Every scenario, told to every law: the table of ``docs/scenarios.md``."""
