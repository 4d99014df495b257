"""What evidence of an end of a channel binds: everything that the end's statement says, each member by itself."""

from dataclasses import fields, replace
from typing import Any

import pytest

from bytewise.protocol.evidence.appraisal_policy import MeasurementRole
from bytewise.protocol.evidence.claims import REPORT_DATA_BYTES
from bytewise.protocol.units import U64, U256, Address, Blob, Digest
from bytewise.tee.binding import VERSION, ChannelStatement, Hello, account_digest, report_data
from tests.fixtures.kms.memory_chain import CONTRACTS

ONE, TWO, THREE, FOUR, FIVE = (Digest(bytes([n]) * 32) for n in range(1, 6))
HELLO = Hello(VERSION, MeasurementRole.KEY_SHARD, ONE, U64(1), TWO, Blob(b"\x04" * 65))
STATEMENT = ChannelStatement(CONTRACTS, HELLO, bytes(32), THREE, FOUR, FIVE)
OTHER = Digest(b"\x09" * 32)
HELLOS: dict[str, Any] = {
    "version": VERSION + 1, "role": MeasurementRole.VERIFIER_ENCLAVE, "nonce": OTHER, "key_epoch": U64(2), "policy": OTHER,
    "transport_key": Blob(b""),
}  # fmt: skip
STATEMENTS: dict[str, Any] = {"exporter": b"\x09" * 32, "own_key": OTHER, "peer_key": OTHER, "peer_nonce": OTHER}
CHANGED: dict[str, ChannelStatement] = {
    **{name: replace(STATEMENT, hello=replace(HELLO, **{name: value})) for name, value in HELLOS.items()},
    **{name: replace(STATEMENT, **{name: value}) for name, value in STATEMENTS.items()},
    "chain": replace(STATEMENT, contracts=replace(CONTRACTS, chain_id=U256(1))),
    "key_epochs": replace(STATEMENT, contracts=replace(CONTRACTS, key_epochs=Address("0x" + "e2" * 20))),
}


@pytest.mark.parametrize("name", CHANGED)
def test_another_member_is_another_statement(name: str) -> None:
    data = report_data(STATEMENT)
    assert len(data) == REPORT_DATA_BYTES and data[32:] == bytes(32)
    assert report_data(CHANGED[name]) != data
    assert account_digest(CHANGED[name]) != account_digest(STATEMENT)


def test_every_member_of_the_statement_is_tested() -> None:
    """One that is added to a statement and not to this list fails here."""
    own = {each.name for each in fields(Hello)} | {each.name for each in fields(ChannelStatement)} - {"contracts", "hello"}
    assert own | {"chain", "key_epochs"} == set(CHANGED)


def test_account_signature_is_no_report_data_and_members_are_not_swappable() -> None:
    assert account_digest(STATEMENT) not in (report_data(STATEMENT)[:32], report_data(STATEMENT)[32:])
    for one, other in (("own_key", "peer_key"), ("own_key", "peer_nonce"), ("peer_key", "peer_nonce")):
        swapped = replace(STATEMENT, **{one: getattr(STATEMENT, other), other: getattr(STATEMENT, one)})
        assert report_data(swapped) != report_data(STATEMENT)
