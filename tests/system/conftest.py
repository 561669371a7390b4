from engines.fixtures import tiny_model  # noqa: F401 (fixture)
