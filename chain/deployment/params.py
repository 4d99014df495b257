"""Parameter sets: the set of a network on one machine, and changes that are read from a file."""

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bytewise.protocol.court.params import Committee, Durations, Money, ParamSet, RewardShares
from bytewise.protocol.errors.actors import ConfigurationError

ETHER = 10**18
DAY = 86_400

DEVNET = ParamSet(
    times=Durations(
        window=120, max_anchor_delay=60, cure=60, seed_time=160, draw_time=30, commit_time=60, reveal_time=30, appeal_time=20,
        rerun_time=280, airgap=10, max_pause=DAY, execution_bound=20, unbond_delay=7 * DAY, da_retention=14 * DAY,
        da_margin=DAY, key_retention=7 * DAY, withdraw_delay=10, breaker_time=DAY,
    ),
    committee=Committee(
        seats=(15, 31, 0), rounds=2, max_reruns=1, breaker_operators=8, tau_num=2, tau_den=3, min_pool=3, certify_bps=6_000,
    ),
    money=Money(
        fee_per_seat=ETHER // 1000, privacy_price=ETHER // 100, slash_amount=8 * ETHER, absent_penalty=ETHER // 100,
        no_reveal_penalty=ETHER // 50, wrong_penalty=ETHER // 20, min_operator_stake=8 * ETHER, min_verifier_stake=8 * ETHER,
        receipt_collateral=ETHER // 100, withheld_penalty=ETHER // 100, unanchored_penalty=8 * ETHER,
        demand_bond=ETHER // 1000, audit_unit=32 * ETHER, bounty=10**11,
    ),
    shares=RewardShares(
        alpha_bps=3_000, beta_bps=4_000, operator_share_bps=5_000, audit_rate_bps=9_000, audits_per_hour=600,
        max_batch=64,
    ),
)  # fmt: skip
"""Parameters of a network on one machine with one-second blocks. Its disputes end in minutes."""


def with_changes(params: ParamSet, changes: Mapping[str, Any]) -> ParamSet:
    """Returns a copy of the set with some parameters replaced, for example `{"times": {"window": 60}}`.

    Raises `ConfigurationError`, which names the parameter, if it is unknown or has another type. The contract checks bounds.
    """
    parts = {}
    for part, values in changes.items():
        known = getattr(params, part, None) if part in _names(params) else None
        if known is None or not isinstance(values, Mapping):
            raise ConfigurationError("parameters", f"{part}: one of {sorted(_names(params))}, each with names and values")
        parts[part] = dataclasses.replace(known, **{name: _value(part, name, known, value) for name, value in values.items()})
    return dataclasses.replace(params, **parts)


def complete_params(values: Mapping[str, Any]) -> ParamSet:
    """Returns the set with exactly these values. Raises `ConfigurationError`, which names the parameters, if any is missing,
    unknown or of another type."""
    missing = [
        f"{part}.{name}"
        for part in sorted(_names(DEVNET))
        for name in sorted(_names(getattr(DEVNET, part)))
        if not isinstance(values.get(part), Mapping) or name not in values[part]
    ]
    if missing:
        raise ConfigurationError("parameters", f"missing {', '.join(missing)}")
    return with_changes(DEVNET, values)


def read_changes(path: Path) -> Mapping[str, Any]:
    """Reads from a TOML file the parameters that replace those of a `ParamSet`, for `with_changes` or `complete_params`.

    Each table is named after a part of the set, for example `[times]`. This function does not check names and types. Raises
    `ConfigurationError` if the file cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(path.name, str(error)) from None


def _value(part: str, name: str, known: Any, value: Any) -> Any:
    if name not in _names(known):
        raise ConfigurationError("parameters", f"{part}.{name}: no such parameter")
    have = getattr(known, name)
    given = tuple(value) if isinstance(value, list) else value
    # Seats are three numbers. Python takes a bool for an int; it is no number here.
    alike = type(given) is type(have) and (not isinstance(have, tuple) or tuple(map(type, given)) == (int, int, int))
    if not alike:
        raise ConfigurationError("parameters", f"{part}.{name}: {value!r} is no {type(have).__name__}")
    return given


def _names(record: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(record)}
