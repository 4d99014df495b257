"""The appraisal policy as a file: canonical bytes of `AppraisalPolicy`, or of `SignedPolicy` with the shard's stored history."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.records import MalformedValue, NotCanonical, WrongFields
from bytewise.protocol.evidence.appraisal_policy import AppraisalPolicy, SignedPolicy
from bytewise.protocol.evidence.policy_updates import (
    PolicyState,
    PolicyTimes,
    first_policy_state,
    update_policy,
    verify_approval,
    verify_times,
)
from bytewise.protocol.units import U64, Address
from bytewise.service.files import replace_file

T = TypeVar("T")


def load_policy(path: Path, chain_id: int, production: bool) -> AppraisalPolicy:
    """The policy of a file, if it fits this chain and process; else `ConfigurationError`, and the actor does not start."""
    return _fit(_read(AppraisalPolicy, path), path, chain_id, production)


def load_policy_state(
    path: Path, history: Path, governors: Sequence[Address], threshold: int, chain_id: int, production: bool, times: PolicyTimes
) -> PolicyState:  # fmt: skip
    """The policy in force after the signed policy of a file followed the stored `history`, which is written first.

    One wrong clock neither shortens nor extends the wait of an addition, and is not stored. `PolicyRefused` if the policy may not
    follow, `ConfigurationError` for files that cannot be read and for times that contradict each other (`verify_times`). A lost
    history must be restored: without it, any older policy with good signatures would be accepted.
    """
    policy = _fit(verify_approval(_read(SignedPolicy, path), governors, threshold), path, chain_id, production)
    before = _read(PolicyState, history) if history.exists() else first_policy_state(policy)
    seen = before.seen or 0
    standing = update_policy(before, policy, verify_times(times, seen))
    standing = replace(standing, seen=U64(max(*times, seen)))
    # Stored before anything is decided by it.
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
    except (MalformedValue, NotCanonical, WrongFields) as error:
        raise ConfigurationError(path.name, str(error)) from None
