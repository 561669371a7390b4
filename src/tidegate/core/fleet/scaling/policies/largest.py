"""Several policies on one model: the largest of their numbers counts, as it does with KEDA's triggers.

Each looks at the same situation and remembers for itself. Down only when all of them have come down.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.fleet.scaling.policies.base import Learned, Policy, Proposal, Situation


class Largest:
    """The policies of one model, the first of them named ``policy`` in its settings."""

    def __init__(self, policies: Sequence[tuple[str, Policy]]) -> None:
        self._policies = tuple(policies)

    def __repr__(self) -> str:
        return f"<Largest of {', '.join(name for name, _ in self._policies)}>"

    @property
    def policies(self) -> tuple[Policy, ...]:
        """In the order of the settings."""
        return tuple(policy for _, policy in self._policies)

    @property
    def reads_engines(self) -> bool:
        """One of them looks at the engines' own pages."""
        return any(getattr(policy, "reads_engines", False) for _, policy in self._policies)

    def propose(self, seen: Situation, now_s: float) -> Proposal:
        """The largest number, with the reason of the policy that it is from; the first one's among equals."""
        said = [(name, policy.propose(seen, now_s)) for name, policy in self._policies]
        name, largest = max(said, key=lambda pair: pair[1].wanted)
        dues = [proposal.due_at_s for _, proposal in said if proposal.due_at_s is not None]
        inputs = {other: float(proposal.wanted) for other, proposal in said} | largest.inputs
        return Proposal(
            largest.wanted,
            largest.asked,
            f"{name}: {largest.because}",
            largest.held_by,
            min(dues, default=None),
            inputs,
            _needed(largest.wanted, [proposal for _, proposal in said]),
        )


def _needed(wanted: int, said: Sequence[Proposal]) -> float | None:
    """What those need who want the most; None when one of them does not say."""
    needs = [proposal.needed for proposal in said if proposal.wanted == wanted]
    known = [needed for needed in needs if needed is not None]
    return max(known) if len(known) == len(needs) else None


def learners(policy: Policy | None) -> list[Learned]:
    """Those that learn, of one policy or of the several that it is made of."""
    several: tuple[object, ...] = policy.policies if isinstance(policy, Largest) else (policy,)
    return [one for one in several if isinstance(one, Learned)]
