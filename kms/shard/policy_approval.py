"""A governor's side of an appraisal policy: lists what it changes, and signs it."""

from pathlib import Path
from typing import TypeVar

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.evidence.appraisal_policy import (
    AppraisalPolicy,
    PlatformRule,
    SignedPolicy,
    TrustedMeasurement,
    approval_digest,
    entry_digest,
)
from bytewise.protocol.evidence.policy_updates import PolicyTimes, first_policy_state, update_policy
from bytewise.protocol.signing import Signer, recover
from bytewise.protocol.units import hex0x
from bytewise.service.files import replace_file

T = TypeVar("T")


def approve(policy_file: Path, out_file: Path, signer: Signer) -> SignedPolicy:
    """Signs the policy of `policy_file` and writes it to `out_file`, with the signatures that `out_file` already has.

    `ConfigurationError` for files that cannot be read or written, or if `out_file` is about another policy. Signatures of others
    are never lost.
    """
    policy = _read(AppraisalPolicy, policy_file)
    signed = _read(SignedPolicy, out_file) if out_file.exists() else SignedPolicy(policy, ())
    if signed.policy != policy:
        raise ConfigurationError(out_file.name, "holds signatures over another policy: name a new out_file")
    digest = approval_digest(policy)
    others = [each for each in signed.signatures if recover(digest, each) != signer.address]
    result = SignedPolicy(policy, (*others, signer.sign(digest)))
    replace_file(out_file, encode(result))
    return result


def policy_changes(before: AppraisalPolicy, after: AppraisalPolicy) -> tuple[str, ...]:
    """What a shard does when `after` follows `before`, one line for each entry; `PolicyRefused` if it refuses the policy."""
    waiting = {each.entry for each in update_policy(first_policy_state(before), after, PolicyTimes(0, 0)).pending}
    old: tuple[PlatformRule | TrustedMeasurement, ...] = (*before.rules, *before.measurements)
    new: tuple[PlatformRule | TrustedMeasurement, ...] = (*after.rules, *after.measurements)
    added = (
        f"{'waits' if entry_digest(each) in waiting else 'counts at once'}: {_line(each)}" for each in new if each not in old
    )
    ended = (f"ends at once: {_line(each)}" for each in old if each not in new)
    return (*added, *ended)


def read_policy(path: Path) -> AppraisalPolicy:
    """The policy of a file, unsigned or with its signatures."""
    try:
        return _read(SignedPolicy, path).policy
    except ConfigurationError:
        return _read(AppraisalPolicy, path)


def _line(entry: PlatformRule | TrustedMeasurement) -> str:
    name = hex0x(entry_digest(entry))
    if isinstance(entry, PlatformRule):
        statuses = ", ".join(each.value for each in entry.statuses)
        return f"platform rule {entry.type.value} {name}: {statuses}; out-of-date levels for {entry.out_of_date_grace_s or 0} s"
    covers = ", ".join(each.value for each in entry.covers)
    where = f"as {entry.role.value} on {entry.platform.value}, covers {covers}, gpu {entry.gpu.value}"
    return f"program {hex0x(entry.measurement)} {where}: {entry.statement}"


def _read(cls: type[T], path: Path) -> T:
    try:
        return decode(cls, path.read_bytes())
    except OSError as error:
        raise ConfigurationError(path.name, error.strerror) from None
    except Fault as error:
        raise ConfigurationError(path.name, str(error)) from None
