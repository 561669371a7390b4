"""Each module or package here is one benchmark: ``python -m benchmarks.NAME`` prints a table and writes its JSON."""
