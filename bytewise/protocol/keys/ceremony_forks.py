"""Two logs of one ceremony by one scribe: found where they part, and proven to anybody by two of its signatures (ADR 162).

A head names every message before it. A scribe makes its log durable before it signs a head, so of each number of messages it
signs one head at most, whenever it crashes: two that differ, of one number, are the word of who keeps two logs.
"""

from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from bytewise.protocol.encoding import decode
from bytewise.protocol.errors import CeremonyRefused
from bytewise.protocol.keys.ceremony import Plan, SignedPlan, verify_plan
from bytewise.protocol.keys.ceremony_log import Exchange, Message, SignedHead, head_after, next_head, verify_head, verify_leads
from bytewise.protocol.units import Blob, Digest

MAX_COPY_MARKS = 2**16
"""Most brackets and commas of a copy of a log: some 20 for a seat and 8 for a message, in two logs."""


@dataclass(frozen=True, slots=True)
class Fork:
    """Evidence that a scribe signed two logs of one ceremony. It needs nothing beside it but the scribe's address."""

    plan: SignedPlan
    """The ceremony, as the scribe announced it."""
    shorter: SignedHead
    """How one log goes."""
    longer: SignedHead
    """How another goes, as many messages or more."""
    at: Digest
    """Head of the other log where it has as many messages as the first."""
    between: tuple[Message, ...]
    """The other log from there to its end: they show that the head which is signed there means `at`."""


@dataclass(frozen=True, slots=True)
class LogCopy:
    """What one shard has of a ceremony's log. All of it is public."""

    plan: SignedPlan
    """The ceremony."""
    messages: tuple[Message, ...]
    """The log, from its first message on."""
    end: SignedHead
    """The scribe's word for it."""
    fork: Fork | None
    """The first other log that the scribe showed to this shard, if any."""


class Stretch(NamedTuple):
    """A part of a log: signed where it ends, and where it begins unless that is with the ceremony."""

    before: SignedHead
    messages: tuple[Message, ...]
    after: SignedHead


def brought(asked: Exchange) -> Stretch:
    """What an exchange shows of a log."""
    return Stretch(asked.before, asked.messages, asked.after)


def find_fork(plan: SignedPlan, log: tuple[Message, ...], end: SignedHead, other: Stretch) -> Fork | None:
    """Where a stretch parts from a log; None if it does not, or begins after its end.

    Both must have been verified: `end` is the log's, and the stretch leads from its first head to its second.
    """
    heads = list(accumulate(log, next_head, initial=plan.plan.digest))
    first, told = other.before.length, other.after
    if first > len(log):
        return None
    if heads[first] != other.before.head:
        return Fork(plan, other.before, end, heads[first], log[first:])
    if told.length <= len(log):
        return None if heads[told.length] == told.head else Fork(plan, told, end, heads[told.length], log[told.length :])
    shared = len(log) - first
    at = head_after(other.before.head, other.messages[:shared])
    return None if at == heads[-1] else Fork(plan, end, told, at, other.messages[shared:])


def verify_fork(fork: Fork) -> Plan:
    """The plan whose scribe is convicted; `BadSignature` or `CeremonyRefused` if this convicts nobody."""
    plan = verify_plan(fork.plan)
    shorter, longer = (verify_head(fork.plan, each) for each in (fork.shorter, fork.longer))
    verify_leads(fork.plan, fork.at, fork.between, longer, shorter.length)
    if fork.at == shorter.head:
        raise CeremonyRefused(plan.digest.hex()[:16], f"both heads are of one log at {shorter.length} messages: this is no fork")
    return plan


def read_copy(data: bytes) -> LogCopy:
    """A copy of a log whose scribe signed it, with a fork that convicts it or none; a `Fault` for anything else."""
    copy = decode(LogCopy, data, MAX_COPY_MARKS)
    plan = verify_plan(copy.plan)
    verify_leads(copy.plan, plan.digest, copy.messages, verify_head(copy.plan, copy.end), 0)
    if copy.fork is not None and verify_fork(copy.fork) != plan:
        raise CeremonyRefused(plan.digest.hex()[:16], "the fork is of another ceremony")
    return copy


def fork_of_copies(one: LogCopy, other: LogCopy) -> Fork | None:
    """Where two shards' copies of one ceremony part; None if one is the beginning of the other, or they are of two ceremonies."""
    if one.plan.plan != other.plan.plan:
        return None
    begun = SignedHead(0, one.plan.plan.digest, Blob(b""))
    return find_fork(one.plan, one.messages, one.end, Stretch(begun, other.messages, other.end))
