"""The policy file: checked at the door, frozen behind it."""
