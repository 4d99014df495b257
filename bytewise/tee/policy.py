"""Files of the appraisal policy. A file has the canonical bytes of an `AppraisalPolicy`, or of a `SignedPolicy`.

A governor (an account that may approve policies) lists the changes of a policy and signs it. A shard loads a signed policy and
applies it to the history that the shard stores.
"""

from collections.abc import Sequence
from dataclasses import replace
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
from bytewise.protocol.evidence.policy_updates import (
    PolicyState,
    PolicyTimes,
    first_policy_state,
    update_policy,
    verify_approval,
    verify_times,
)
from bytewise.protocol.signing import LocalSigner, recover
from bytewise.protocol.units import U64, Address, hex0x
from bytewise.service.files import replace_file

T = TypeVar("T")


def approve(policy_file: Path, out_file: Path, signer: LocalSigner) -> SignedPolicy:
    """Signs the policy of `policy_file`, and writes it to `out_file` together with the signatures that `out_file` already has.

    Raises `ConfigurationError` if a file cannot be read or written, or if `out_file` has signatures over another policy.
    All signatures of other governors in `out_file` are kept. Run it for one governor at a time.
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
    """Returns one line for each entry that is added or removed when policy `after` follows `before` on a shard. The line says
    whether an added entry waits. Raises `PolicyRefused` if a shard would refuse `after`."""
    waiting = {each.entry for each in update_policy(first_policy_state(before), after, PolicyTimes(0, 0)).pending}
    old: tuple[PlatformRule | TrustedMeasurement, ...] = (*before.rules, *before.measurements)
    new: tuple[PlatformRule | TrustedMeasurement, ...] = (*after.rules, *after.measurements)
    added = (
        f"{'waits' if entry_digest(each) in waiting else 'counts at once'}: {_line(each)}" for each in new if each not in old
    )
    ended = (f"ends at once: {_line(each)}" for each in old if each not in new)
    return (*added, *ended)


def read_policy(path: Path) -> AppraisalPolicy:
    """Returns the policy of a file, which may be signed or unsigned. Signatures are not verified."""
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


def load_policy(path: Path, chain_id: int, production: bool) -> AppraisalPolicy:
    """Returns the unsigned policy of a file. Raises `ConfigurationError`, so that the actor does not start, if the policy does
    not fit this chain and process."""
    return _fit(_read(AppraisalPolicy, path), path, chain_id, production)


def load_policy_state(
    path: Path, history: Path, governors: Sequence[Address], threshold: int, chain_id: int, production: bool, times: PolicyTimes
) -> PolicyState:  # fmt: skip
    """Applies the signed policy in the file `path` to the state in the file `history`, stores the new state there and returns it.

    `times` has the times of two clocks, which are compared first. A single wrong clock therefore cannot change the waiting time
    of an addition, and its time is not stored. Raises `PolicyRefused` if too few governors signed the policy, or if it may not
    follow the stored state. Raises `ConfigurationError` if a file cannot be read, if the policy does not fit this chain and
    process, or if the times contradict each other (`verify_times`).

    A lost history must be restored. Without it, any older policy with good signatures would be accepted.
    """
    policy = _fit(verify_approval(_read(SignedPolicy, path), governors, threshold), path, chain_id, production)
    before = _read(PolicyState, history) if history.exists() else first_policy_state(policy)
    seen = before.seen or 0
    standing = update_policy(before, policy, verify_times(times, seen))
    standing = replace(standing, seen=U64(max(*times, seen)))
    # The history is stored before any decision uses it.
    replace_file(history, encode(standing))
    return standing


def _fit(policy: AppraisalPolicy, path: Path, chain_id: int, production: bool) -> AppraisalPolicy:
    if chain_id not in policy.chain_ids:
        raise ConfigurationError(path.name, f"policy is not for chain {chain_id}")
    if production and policy.insecure_accept_simulated:
        raise ConfigurationError(path.name, "simulated evidence in production")
    return policy


def _read(cls: type[T], path: Path) -> T:
    try:
        return decode(cls, path.read_bytes())
    except OSError as error:
        raise ConfigurationError(path.name, error.strerror) from None
    except Fault as error:
        raise ConfigurationError(path.name, str(error)) from None
