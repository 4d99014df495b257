"""Disputes, batches, accounts and dockets as tests set them: plain ones, with what a test changes."""

import dataclasses
from typing import Any

from bytewise.protocol import digests
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.snapshot import AnchoredBatch, Case, Challenger, Docket, Holdings, RoundSeats, Seed
from bytewise.protocol.digests import Label
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import ZERO_DIGEST, Address, Digest, address

OTHER = address("0x" + "22" * 20)
BLOCK, NOW = 500, 10_000


def word(*parts: object) -> Digest:
    """An arbitrary digest."""
    return digests.labelled(Label.KEY_DERIVATION, b"docket", *(str(part).encode() for part in parts))


POOL = word("pool")


def holdings(**changes: Any) -> Holdings:
    """A verifier at place 0 without any money."""
    return dataclasses.replace(Holdings(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, POOL, 0), **changes)


def case(**changes: Any) -> Case:
    """A dispute that waits for its first seed."""
    plain = Case(
        id=word("dispute"), receipt_id=word("receipt"), batch_id=0, operator=OTHER, environment=word("environment"),
        claim=word("claim"), key_epoch=1, params_version=1, phase=Phase.SEED,
        level=1, round=1, seats=15, drawn=0, quorum=10, rearms=0, seed=Seed(BLOCK + 10, False, False),
        round_seed=ZERO_DIGEST,
        commit_s=60, commit_end=0, reveal_end=0, settleable=False, certified_group=ZERO_DIGEST,
        appealed=False, appeal_bond_wei=1, appeal_end=0, airgap_end=0, held=False, verdict=Verdict.NONE, key=ZERO_DIGEST,
        replacement=ZERO_DIGEST, ended=False, paid=False, members=(), challenger=Challenger(OTHER, False),
        rounds=(RoundSeats(15, 0),),
    )  # fmt: skip
    return dataclasses.replace(plain, **changes)


def anchored(batch_id: int = 0, operator: Address = OTHER, window_end: int = NOW + 60, **changes: Any) -> AnchoredBatch:
    """A batch whose window is open."""
    plain = AnchoredBatch(
        batch_id=batch_id, operator=operator, first_seq=1, params_version=1, window_end=window_end, is_void=False, released=False,
        list_demanded=False, list_deadline=0,
    )  # fmt: skip
    return dataclasses.replace(plain, **changes)


def docket(*cases: Case, **changes: Any) -> Docket:
    """What a verifier sees, with these disputes."""
    plain = Docket(
        block_hash=word("block"), number=BLOCK, timestamp=NOW + 7, clock=NOW, paused=False, params_version=1,
        required_bond_wei=1, price_wei=1, me=holdings(), cases=cases, batch_count=2,
        active_epoch=1, policy=word("policy"), policy_serial=1,
    )  # fmt: skip
    return dataclasses.replace(plain, **changes)
