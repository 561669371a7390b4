"""The policy file: checked at the door, frozen behind it."""

from tidegate.config.build import default_weights
from tidegate.config.dump import render
from tidegate.config.loader import load, parse
from tidegate.config.problems import PolicyError, Problem
from tidegate.config.reload import differences
from tidegate.config.schema import json_schema
from tidegate.config.settings import Settings

__all__ = [
    "PolicyError",
    "Problem",
    "Settings",
    "default_weights",
    "differences",
    "json_schema",
    "load",
    "parse",
    "render",
]
