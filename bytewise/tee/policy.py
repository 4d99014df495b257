"""The appraisal policy as a file: canonical bytes of `AppraisalPolicy`, whose digest the chain has (design section 7)."""

from pathlib import Path

from bytewise.protocol.encoding import decode
from bytewise.protocol.errors import ConfigurationError, MalformedValue, NotCanonical, WrongFields
from bytewise.protocol.evidence import AppraisalPolicy


def load_policy(path: Path, chain_id: int, production: bool) -> AppraisalPolicy:
    """The policy of a file, fit for this chain and process; `ConfigurationError` otherwise: the actor refuses to start."""
    try:
        policy = decode(AppraisalPolicy, path.read_bytes())
    except OSError as error:
        raise ConfigurationError(path.name, error.strerror) from None
    except (MalformedValue, NotCanonical, WrongFields) as error:
        raise ConfigurationError(path.name, str(error)) from None
    if chain_id not in policy.chain_ids:
        raise ConfigurationError(path.name, f"policy is not for chain {chain_id}")
    if production and policy.insecure_accept_simulated:
        raise ConfigurationError(path.name, "simulated evidence in production")
    return policy
