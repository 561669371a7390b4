from engines.fixtures import tiny_adapters, tiny_model  # noqa: F401 (fixtures)
