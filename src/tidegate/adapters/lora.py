"""Which LoRA adapter a request asks for, and putting that into its body the way an engine wants it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidegate.adapters.base import EngineSpec

Fields = dict[str, msgspec.Raw]
"""A JSON object one level deep: values stay the bytes they were."""

_OBJECT = msgspec.json.Decoder(Fields)
_STRING = msgspec.json.Decoder(str)
_ENCODER = msgspec.json.Encoder()


def names_answered(spec: EngineSpec) -> tuple[str, ...]:
    """Every model name that a replica of ``spec`` answers to: its own, then ``name:adapter`` for each."""
    return (spec.model_name, *(f"{spec.model_name}:{adapter}" for adapter in spec.lora or ()))


def adapter_asked_for(model: str, spec: EngineSpec) -> str | None:
    """The adapter that a model name selects, written ``base:adapter`` or by its own name; else None."""
    adapters = spec.lora or {}
    if model == spec.model_name:
        return None
    base, colon, adapter = model.rpartition(":")
    if colon and base == spec.model_name and adapter in adapters:
        return adapter
    return model if model in adapters else None


def fields_of(body: bytes) -> Fields | None:
    """The body's top-level fields; None when it is not a JSON object, which is the engine's to refuse."""
    try:
        return _OBJECT.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None


def model_of(fields: Fields) -> str:
    """The model name in the body; empty when there is none."""
    try:
        return _STRING.decode(fields["model"])
    except (KeyError, msgspec.DecodeError):
        return ""


def with_fields(fields: Fields, changes: Mapping[str, object]) -> bytes:
    """The body again, with these fields replaced or added and all others byte for byte as they were."""
    return _ENCODER.encode(
        fields | {name: msgspec.Raw(_ENCODER.encode(value)) for name, value in changes.items()}
    )


def renamed(body: bytes, name: str, engine_name: str) -> bytes:
    """The body for an engine that knows this model, and its adapters behind a colon, by another name."""
    fields = fields_of(body)
    if fields is None:
        return body
    asked = model_of(fields)
    if asked != name and not asked.startswith(f"{name}:"):
        return body
    return with_fields(fields, {"model": engine_name + asked.removeprefix(name)})


def without_field(body: bytes, name: str) -> bytes:
    """The body without this field. One that surely lacks it is returned as it is, undecoded."""
    # A key may be spelt with escapes; only then, or when it is there in plain, is decoding needed.
    if name.encode() not in body and b"\\u" not in body:
        return body
    fields = fields_of(body)
    if fields is None or fields.pop(name, None) is None:
        return body
    return _ENCODER.encode(fields)
