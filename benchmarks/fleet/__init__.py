"""The fleet's laws judged side by side. ``make bench-fleet`` prints every scenario's table."""
