"""A published result quote is readable by anyone, and binds every member of its statement."""

import os
from dataclasses import replace

import pytest

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import EvidenceRefused
from bytewise.protocol.errors.evidence import EvidenceMalformed
from bytewise.protocol.errors.records import ForeignChain, MalformedValue
from bytewise.protocol.evidence.claims import Evidence, HostClaims, ResultQuote, ResultStatement, result_report_data
from bytewise.protocol.units import U8, U16, U64, U256, ZERO_DIGEST, Address, Digest
from bytewise.tee.appraisal import verify_result_quote
from tests.fixtures.tee.simulated_platform import CHAIN_ID, Bench

PREMISES = HostClaims(U64(7), Digest(b"\x06" * 32), Digest(b"\x07" * 32), Digest(b"\x08" * 32))


def statement(**changes: object) -> ResultStatement:
    plain = ResultStatement(
        U256(CHAIN_ID), Address("0x" + "d1" * 20), Digest(b"\x01" * 32), U16(1), Digest(b"\x02" * 32),
        Address("0x" + "01" * 20), U8(1), U8(0), Digest(b"\x03" * 32), Digest(b"\x04" * 32), Digest(b"\x05" * 32), 1,
        PREMISES,
    )  # fmt: skip
    return replace(plain, **changes)  # type: ignore[arg-type]


def quoted(bench: Bench, said: ResultStatement) -> ResultQuote:
    return ResultQuote(said, decode(Evidence, bench.quoter.quote(result_report_data(said))))


def test_published_result_quote_is_readable_years_later(bench: Bench) -> None:
    document = quoted(bench, statement())
    read = verify_result_quote(bench.policy, encode(document), CHAIN_ID)
    assert read.statement.verify_passes == 1 and read == document


@pytest.mark.parametrize(
    "changes",
    [
        {"chain_id": U256(1)}, {"contract": Address("0x" + "d2" * 20)}, {"subject": ZERO_DIGEST}, {"round": U16(2)},
        {"receipt_id": ZERO_DIGEST}, {"voter": Address("0x" + "02" * 20)}, {"outcome": U8(2)}, {"code": U8(1)},
        {"tokens_hash": ZERO_DIGEST}, {"trace_root": ZERO_DIGEST}, {"round_digest": ZERO_DIGEST}, {"verify_passes": 2},
        {"premises": replace(PREMISES, anchored_at=U64(8))}, {"premises": replace(PREMISES, keys=ZERO_DIGEST)},
        {"premises": replace(PREMISES, policy=ZERO_DIGEST)}, {"premises": replace(PREMISES, round_seed=ZERO_DIGEST)},
    ],
    ids=lambda changes: next(iter(changes)),
)  # fmt: skip
def test_a_result_quote_binds_every_member_of_its_statement(bench: Bench, changes: dict[str, object]) -> None:
    document = replace(quoted(bench, statement()), statement=statement(**changes))
    with pytest.raises((EvidenceRefused, ForeignChain)):
        verify_result_quote(bench.policy, encode(document), CHAIN_ID)


def test_a_sound_result_quote_about_another_chain_is_refused(bench: Bench) -> None:
    with pytest.raises(ForeignChain, match="for chain 1"):
        verify_result_quote(bench.policy, encode(quoted(bench, statement(chain_id=U256(1)))), CHAIN_ID)


def test_bytes_that_are_no_result_quote_are_refused(bench: Bench) -> None:
    for data in (b"", b"{}", os.urandom(50), encode(quoted(bench, statement())) + b" ", b" " * 80_000):
        with pytest.raises(EvidenceMalformed):
            verify_result_quote(bench.policy, data, CHAIN_ID)


def test_report_data_has_64_bytes(bench: Bench) -> None:
    assert len(result_report_data(statement())) == 64
    for length in (0, 32, 63, 65):
        with pytest.raises(MalformedValue):
            bench.quoter.quote(bytes(length))
