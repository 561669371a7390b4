"""One emulated engine: an OpenAI-compatible server around the engine model, with vLLM's metrics.

It answers with made-up text at the speed of a catalogued engine, starts as slowly as one, and breaks
on order. For tests, demonstrations and for trying policies without a GPU.
"""
