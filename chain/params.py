"""The parameter sets that `Params` is deployed with; units as in `Types.sol`: seconds, wei, 1/10,000."""

from collections.abc import Mapping
from typing import Any

from bytewise.protocol.errors import ConfigurationError
from chain.artifacts import interface

ETHER = 10**18
DAY = 86_400

DEVNET: Mapping[str, Any] = {
    "window": 120,
    "maxAnchorDelay": 60,
    "cure": 0,
    "seedTime": 10,
    "drawTime": 10,
    "commitTime": 40,
    "revealTime": 20,
    "appealTime": 0,
    "rerunTime": 0,
    "airgap": 0,
    "maxPause": 0,
    "executionBound": 20,
    "unbondDelay": DAY,
    "daRetention": 14 * DAY,
    "daMargin": DAY,
    "keyRetention": DAY,
    "rounds": 2,
    "seats": (15, 31),
    "tauNum": 2,
    "tauDen": 3,
    "seedDelayBlocks": 2,
    "feePerSeat": ETHER // 1000,
    "privacyPrice": ETHER // 100,
    "slashAmount": 8 * ETHER,
    "seatStake": ETHER // 10,
    "absentPenalty": ETHER // 100,
    "noRevealPenalty": ETHER // 50,
    "wrongPenalty": ETHER // 20,
    "minOperatorStake": 8 * ETHER,
    "minVerifierStake": ETHER,
    "auditUnit": 32 * ETHER,
    "alphaBps": 3000,
    "betaBps": 4000,
    "operatorShareBps": 5000,
    "auditRateBps": 9000,
    "maxBatch": 256,
    "paperRule": False,
}
"""A network on one machine with one-second blocks, whose disputes end in a minute."""


def param_set(values: Mapping[str, Any], **changes: Any) -> tuple[Any, ...]:
    """The `ParamSet` argument of the `Params` constructor; `ConfigurationError` names missing and unknown parameters."""
    members = [each["name"] for each in interface("Params").constructor[0]["components"]]
    merged = {**values, **changes}
    if merged.keys() != set(members):
        missing, unknown = set(members) - merged.keys(), merged.keys() - set(members)
        raise ConfigurationError("parameters", f"missing {sorted(missing)}, unknown {sorted(unknown)}")
    return tuple(merged[name] for name in members)
