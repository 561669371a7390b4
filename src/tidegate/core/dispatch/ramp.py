"""The first moments of a replica among others that know their way.

A new engine compiles, warms its caches and can be several times slower than its peers. So it starts with
one request and gets twice as many with every first token that comes about as fast as its peers' do. The
ramp ends when all slots are open, or after its span of seconds and served tokens, unless it still lags.
While it lags it keeps one request at a time, which shows when it no longer does.

Where its peers have no free slot it is used up to its slots at once, as long as it is not known to lag by
more than the wait it saves.
"""

from __future__ import annotations

LAGS_RATIO = 3.0
KEEPS_UP_RATIO = 1.5
"""Of the peers' time to first token, for a prompt of the same length."""
LAGS_S = 0.25
"""And by less than this it does not matter."""
PROMPT_BASE_TOKENS = 256
"""What a prompt of no tokens would still take, in tokens: times are compared for each token and these."""


class Ramp:
    """How far a new replica may be used."""

    __slots__ = (
        "_began_s",
        "_limit",
        "_ratio",
        "_samples",
        "_served_tokens",
        "_span_s",
        "_tokens",
        "lag_s",
        "lags",
    )

    def __init__(self, now_s: float, span_s: float, tokens: int) -> None:
        self._began_s = now_s
        self._span_s = span_s
        self._tokens = tokens
        self._limit = 1
        self._served_tokens = 0
        self._samples = 0
        self._ratio = 0.0
        """Of its last first tokens to what its peers would have needed, the newest counting half."""
        self.lags = False
        """Its last first tokens, at least two, were much later than its peers' would have been."""
        self.lag_s = 0.0
        """By so many seconds."""

    def __repr__(self) -> str:
        return f"<Ramp limit={self._limit} served={self._served_tokens} lags={self.lags}>"

    @property
    def limit(self) -> int:
        """Requests that it is given while its peers have room."""
        return self._limit

    def began(self, took_s: float, expected_s: float | None) -> None:
        """A first token came; ``expected_s`` is what its peers would have needed, None when not known.

        Nothing at all is no measure either: a prompt without a token, or peers faster than the clock.
        """
        if not expected_s:
            self._limit *= 2
            return
        ratio = took_s / expected_s
        self._ratio = ratio if not self._samples else 0.5 * (self._ratio + ratio)
        self._samples += 1
        # One alone may have stood behind a long prompt.
        lags = self._samples > 1 and min(ratio, self._ratio) > LAGS_RATIO
        self.lags = lags and took_s - expected_s > LAGS_S
        if ratio <= KEEPS_UP_RATIO:
            self._limit *= 2
        elif ratio > LAGS_RATIO:
            self.lag_s = took_s - expected_s
            self._limit = 1

    def ended(self, tokens: int) -> None:
        """It served an answer of so many tokens, prompt included."""
        self._served_tokens += tokens

    def is_over(self, slots: int, now_s: float) -> bool:
        """Nothing sets it apart any more."""
        if self.lags:
            return False
        if self._limit >= slots:
            return True
        return now_s >= self._began_s + self._span_s and self._served_tokens >= self._tokens
