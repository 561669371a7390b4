"""Predicted cache hits against real ones, in tokens, as engines told them."""

from __future__ import annotations

REUSE_LEAST = 0.05
"""Some reuse is always thought possible, or nothing would tell equal replicas apart."""
REUSE_PRIOR = 0.3
FORGET_TOKENS = 2_000_000.0
"""Older prompt tokens fade: what the traffic is like now counts."""
WARN_AFTER_TOKENS = 100_000.0
"""Known, before near zero real ones are a finding."""
WARN_RATIO = 0.05


class Hits:
    """Sums for ever, for the meters; and fading sums, for decisions."""

    __slots__ = (
        "_known",
        "_prompt",
        "_real",
        "predicted_tokens",
        "prompt_tokens",
        "real_tokens",
        "requests",
    )

    def __init__(self) -> None:
        self.requests = 0
        self.prompt_tokens = self.predicted_tokens = self.real_tokens = 0.0
        self._prompt = self._known = self._real = 0.0

    def __repr__(self) -> str:
        return f"<Hits predicted={self.predicted_tokens:.0f} real={self.real_tokens:.0f} of {self.prompt_tokens:.0f}>"

    def note(self, prompt: float, predicted: float, real: float, known: float) -> None:
        """One answered request, of whose prompt its replica had computed ``known`` tokens before. Where none of them
        are found again little is soon predicted, so it is them that are watched."""
        self.requests += 1
        self.prompt_tokens += prompt
        self.predicted_tokens += predicted
        self.real_tokens += real
        kept = max(0.0, 1.0 - prompt / FORGET_TOKENS)
        self._prompt = self._prompt * kept + prompt
        self._known = self._known * kept + known
        self._real = self._real * kept + real

    @property
    def reuse(self) -> float:
        """The share of prompt tokens that are found again, of late."""
        prior = 0.05 * FORGET_TOKENS
        share = (self._real + REUSE_PRIOR * prior) / (self._prompt + prior)
        return max(REUSE_LEAST, min(1.0, share))

    @property
    def warning(self) -> str | None:
        """Said while next to nothing that was computed before is found again."""
        if self._known < WARN_AFTER_TOKENS or self._real >= WARN_RATIO * self._known:
            return None
        share = self._real / self._known
        return (
            f"of {self._known:,.0f} prompt tokens that the same replica had computed before {share:.1%} were found in "
            "its cache: prefix routing does nothing here; is the engine's prefix cache on, and large enough?"
        )
