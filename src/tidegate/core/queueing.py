"""How long one waits where several serve: closed formulas for predictions.

Sakasegawa, An approximation formula L_q ~ a*rho^b/(1-rho), Annals of the Institute of Statistical Mathematics 29
(1977): of ``c`` servers at the utilisation ``rho`` an arrival finds all busy with the probability
``rho ** (sqrt(2 * (c + 1)) - 1)``. Its wait is then exponential with the mean ``service * spread / (c * (1 - rho))``
(the heavy-traffic limit of Kingman, 1962), where ``spread`` is half the sum of the squared variations of gaps and
service: 1 for Poisson arrivals and exponential service, 1/2 for equal services.
"""

from __future__ import annotations

from math import erf, exp, hypot, log, pi, sqrt

ALMOST_FULL = 0.999
"""A wait has no law at a utilisation of 1; whoever is beyond it treats the surplus as a line of its own."""


def busy_share(rho: float, servers: float) -> float:
    """Share of the arrivals that find all servers busy."""
    if rho <= 0.0:
        return 0.0
    return 1.0 if rho >= 1.0 else float(rho ** (sqrt(2.0 * (max(1.0, servers) + 1.0)) - 1.0))


def mean_wait_s(rho: float, servers: float, service_s: float, spread: float = 1.0) -> float:
    """Of those that wait at all."""
    return service_s * spread / (max(1.0, servers) * (1.0 - min(rho, ALMOST_FULL)))


def late_share(slack_s: float, rho: float, servers: float, service_s: float, spread: float = 1.0) -> float:
    """Share of the arrivals that wait longer than ``slack_s``."""
    if slack_s < 0.0:
        return 1.0
    busy = busy_share(rho, servers)
    if busy <= 0.0 or service_s <= 0.0:
        return 0.0
    return busy * exp(-slack_s / mean_wait_s(rho, servers, service_s, spread))


def wait_quantile_s(ratio: float, rho: float, servers: float, service_s: float, spread: float = 1.0) -> float:
    """The wait that the share ``ratio`` of the arrivals does not exceed."""
    busy = busy_share(rho, servers)
    if busy <= 1.0 - ratio or service_s <= 0.0:
        return 0.0
    return mean_wait_s(rho, servers, service_s, spread) * log(busy / (1.0 - ratio))


def normal_share(deviations: float) -> float:
    """Share of a normal distribution below so many standard deviations above its mean."""
    return 0.5 * (1.0 + erf(deviations / sqrt(2.0)))


def normal_density(deviations: float) -> float:
    """Of a normal distribution, so many standard deviations from its mean."""
    return exp(-0.5 * deviations * deviations) / sqrt(2.0 * pi)


PROMPTS_SQUARED = 2.0
"""Mean square of what prompts take, by the square of the mean: that of exponential lengths."""
BATCH_NOISE = 0.5
"""Of the root of its batch, how far one request's mean batch swings: a Poisson number, smoothed over its life."""


def pace_spread_s(
    token_s: float, prompts_per_s: float, prompt_s: float, output_tokens: float, growth_s: float, batch: float
) -> float:
    """How far the mean time a token of one answer is from that of all: a standard deviation.

    An answer of ``output_tokens`` meets a Poisson number of prompts in its life, each of which holds it up: shot noise,
    whose variance is rate * span * mean square (Campbell 1909). Its batch, of which each further sequence makes a step
    ``growth_s`` longer, swings too.
    """
    held_up_s = prompt_s * sqrt(PROMPTS_SQUARED * prompts_per_s * token_s / max(1.0, output_tokens))
    return max(1e-9, hypot(held_up_s, growth_s * BATCH_NOISE * sqrt(max(0.0, batch))))
