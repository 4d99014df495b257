"""Updates of the appraisal policy. Enough governors approve each update. Serials grow. An addition counts after a delay, a
removal at once.

The functions are pure: a shard passes in the state that it remembers (`PolicyState`) and gets the new state. An addition is a
rule or measurement that no entry of the previous policy includes. It counts `ADDITION_DELAY_S` seconds after this shard first
saw it, by two clocks (`PolicyTimes`). People can therefore examine an addition and act before it counts.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bytewise.protocol.encoding import LATER
from bytewise.protocol.errors.actors import ClockWrong, ConfigurationError
from bytewise.protocol.errors.branches import ClockFlaw
from bytewise.protocol.errors.evidence import PolicyRefused
from bytewise.protocol.evidence.appraisal_policy import (
    TYPE_OF,
    AppraisalPolicy,
    EvidenceType,
    PlatformRule,
    SignedPolicy,
    TrustedMeasurement,
    approval_digest,
    entry_digest,
)
from bytewise.protocol.signing import recover
from bytewise.protocol.units import U64, Address, Digest

ADDITION_DELAY_S = 3 * 86_400
"""Delay in seconds from the moment when a shard first sees an addition to the moment when the addition counts."""

MAX_CLOCK_DIFFERENCE_S = 3600
"""Largest difference in seconds between the two clocks of a shard at its start. The newest final block may be 15 minutes old."""


class PolicyTimes(NamedTuple):
    """The times of two clocks.

    A delay begins by the later clock and ends by the earlier one, so a single wrong or dishonest clock cannot shorten it.
    """

    own: int
    """Unix second of this machine's clock."""
    chain: int
    """Unix second of the newest final block."""


def verify_times(times: PolicyTimes, seen: int) -> PolicyTimes:
    """Returns the times if a shard may judge a policy by them. Otherwise raises `ClockWrong`.

    The two times must be close to each other, and not long before `seen`, the Unix second of this shard's last start.
    """
    own, chain = times
    if abs(own - chain) > MAX_CLOCK_DIFFERENCE_S:
        what = "set the clock right" if own < chain else "wait until the node has all blocks, or set the clock right"
        raise ClockWrong("clock", f"is at {own}, the newest final block at {chain}: {what}; or ask another node", ClockFlaw.APART)
    if seen - min(times) > MAX_CLOCK_DIFFERENCE_S:
        why = f"says that the shard started at {seen}, and it is {min(times)}: set the clock right, or restore the file"
        raise ClockWrong("policy-history.json", why, ClockFlaw.WENT_BACK)
    return times


@dataclass(frozen=True, slots=True)
class PendingAddition:
    """An addition to the policy, with the time from which it counts."""

    entry: Digest
    """Digest `entry_digest` of the added rule or measurement."""
    counts_from: U64
    """Unix second from which the addition counts."""


@dataclass(frozen=True, slots=True)
class PolicyState:
    """A shard's state on disk: the newest policy that it accepted, and the delays of this policy's additions."""

    policy: AppraisalPolicy
    """The newest accepted policy."""
    pending: tuple[PendingAddition, ...]
    """Additions of this policy, whether they are still delayed or count already."""
    seen: U64 | None = field(default=None, metadata=LATER)
    """Latest Unix second, by either clock, at which the shard started. None in files of older versions."""

    def waiting(self, now: int) -> frozenset[Digest]:
        """Returns the digests of the entries that do not count yet at Unix second `now`."""
        return frozenset(each.entry for each in self.pending if now < each.counts_from)

    def at(self, now: int) -> AppraisalPolicy:
        """Returns the policy without entries that do not count yet at Unix second `now`. Raises `PolicyRefused` if nothing is
        left.

        The rules are in the order in which they began to count. Evidence that satisfies an older rule and an addition is then
        accepted under the older rule.
        """
        waiting, since = self.waiting(now), {each.entry: each.counts_from for each in self.pending}
        kept = (each for each in self.policy.rules if entry_digest(each) not in waiting)
        rules = tuple(sorted(kept, key=lambda each: since.get(entry_digest(each), 0)))
        types = {rule.type for rule in rules}
        allowed = (each for each in self.policy.measurements if entry_digest(each) not in waiting)
        programs = tuple(each for each in allowed if TYPE_OF[each.platform] in types)
        try:
            return dataclasses.replace(
                self.policy, rules=rules, measurements=programs, insecure_accept_simulated=EvidenceType.SIMULATED in types
            )
        except ConfigurationError:
            raise PolicyRefused(self.policy.serial, "all that it accepts was added and has to wait") from None


def verify_approval(signed: SignedPolicy, governors: Sequence[Address], threshold: int) -> AppraisalPolicy:
    """Returns the policy if at least `threshold` different governors signed it and no other account did.

    Otherwise raises `PolicyRefused`. Raises `ConfigurationError` if there are fewer governors than `threshold`, or it is below 1.
    """
    if not 1 <= threshold <= len(set(governors)):
        raise ConfigurationError("governors", f"threshold {threshold} of {len(set(governors))}")
    if len(signed.signatures) > len(governors):
        raise PolicyRefused(signed.policy.serial, f"{len(signed.signatures)} signatures of {len(governors)} governors")
    approval = approval_digest(signed.policy)
    signers = {recover(approval, signature) for signature in signed.signatures}
    if not signers <= set(governors):
        raise PolicyRefused(signed.policy.serial, "signed by somebody who is no governor")
    if len(signers) < threshold:
        raise PolicyRefused(signed.policy.serial, f"{len(signers)} governors signed, {threshold} must")
    return signed.policy


def first_policy_state(policy: AppraisalPolicy) -> PolicyState:
    """Returns the state of a shard without history.

    Its first policy counts at once, because it came with the shard's own settings.
    """
    return PolicyState(policy, ())


def update_policy(
    state: PolicyState, policy: AppraisalPolicy, times: PolicyTimes, delay_s: int = ADDITION_DELAY_S
) -> PolicyState:
    """Returns the state with `policy` as its newest, first seen at these times. An equal policy leaves the state unchanged.

    Raises `PolicyRefused` if the serial does not grow, and for changes that a delay cannot make safe: other chains and simulated
    evidence.
    """
    before = state.policy
    if policy == before:
        return state
    if policy.serial <= before.serial:
        raise PolicyRefused(policy.serial, f"policy {before.serial} was accepted before")
    if not set(policy.chain_ids) <= set(before.chain_ids):
        raise PolicyRefused(policy.serial, "is for chains that the policy before it was not for")
    if policy.insecure_accept_simulated and not before.insecure_accept_simulated:
        raise PolicyRefused(policy.serial, "accepts simulated evidence and the policy before it did not")
    old = {each.entry: each.counts_from for each in state.pending if min(times) < each.counts_from}
    entries: tuple[PlatformRule | TrustedMeasurement, ...] = (*policy.rules, *policy.measurements)
    names = {entry_digest(each): each for each in entries}
    added = (name for name, entry in names.items() if name in old or not _within(entry, before, old))
    counts_from = max(*times, state.seen or 0) + delay_s
    return PolicyState(policy, tuple(PendingAddition(name, old.get(name, U64(counts_from))) for name in added))


def _within(entry: PlatformRule | TrustedMeasurement, before: AppraisalPolicy, waiting: dict[Digest, U64]) -> bool:
    if isinstance(entry, TrustedMeasurement):
        known = (each for each in before.measurements if entry_digest(each) not in waiting)
        return any(
            (each.platform, each.measurement, each.gpu, each.role) == (entry.platform, entry.measurement, entry.gpu, entry.role)
            for each in known
        )
    return any(is_narrower(entry, each) for each in before.rules if entry_digest(each) not in waiting)


def is_narrower(rule: PlatformRule, other: PlatformRule) -> bool:
    """Returns whether the rule accepts nothing that the other rule refuses."""
    listed = set(rule.platforms) <= set(other.platforms) and bool(rule.platforms) if other.platforms else True
    return (
        (rule.type, rule.root) == (other.type, other.root)
        and set(rule.statuses) <= set(other.statuses)
        and set(rule.refused_advisories) >= set(other.refused_advisories)
        and rule.min_evaluation >= other.min_evaluation
        and all(mine >= theirs for mine, theirs in zip(rule.min_tcb, other.min_tcb, strict=True))
        and rule.smt <= other.smt
        and rule.dynamic_platform <= other.dynamic_platform
        and rule.cached_keys <= other.cached_keys
        and listed
        and (rule.max_age_s or math.inf) <= (other.max_age_s or math.inf)
        and (rule.out_of_date_grace_s or 0) <= (other.out_of_date_grace_s or 0)
    )
