"""Caps of decoders that strangers reach (the table in `docs/evidence/attacks.md`): one more and no parser is reached, at the
cap it is.

That a cap is above what honest parties send is shown beside each decoder's own tests.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import dcap_qvl
import pytest
from cryptography import x509

from bytewise.crypto import envelope
from bytewise.protocol import encoding
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.errors.evidence import ChannelRefused
from bytewise.protocol.evidence import claims
from bytewise.protocol.evidence.claims import SnpCertificates
from bytewise.protocol.keys import ceremony_log
from bytewise.protocol.keys.ceremony_log import Close, read_message, sign_message
from bytewise.protocol.keys.epochs import MAX_RELEASE_MARKS, ReleaseRequest
from bytewise.protocol.keys.release_log import ReleaseLog
from bytewise.protocol.units import Blob, Digest
from bytewise.tee import appraisal, binding, dcap, documents, gpu, snp
from bytewise.tee.binding import ChannelStatement
from kms.release_log import copies
from tests.fixtures.kms.ceremonies import party
from tests.fixtures.kms.dkg_fixture import ceremony_shards
from tests.fixtures.kms.memory_chain import CONTRACTS
from tests.fixtures.tee.channels import SHARD, Ends, plain_hello
from tests.fixtures.tee.simulated_platform import CHAIN_ID, Bench
from tests.fixtures.tee.snp_rules import rule
from tests.fixtures.tee.synthetic_amd import NOW, Amd

NAME = Digest(b"\x01" * 32)
Read = Callable[[bytes], object]


class Capped(NamedTuple):
    """A decoder of JSON, and its caps; None where another cap is met first."""

    read: Read
    most_bytes: int | None
    most_marks: int | None


@pytest.fixture(scope="module")
def decoders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Capped]:
    """All that read JSON, by name."""
    bench = Bench(tmp_path_factory.mktemp("bench"))
    terms = Ends(bench).terms(SHARD)
    said = ChannelStatement(CONTRACTS, plain_hello(Ends(bench)), b"\x02" * 32, NAME, NAME, NAME)
    desk = ceremony_shards(tmp_path_factory.mktemp("office"), 1)[0][0].restart()
    marks = claims.MAX_EVIDENCE_MARKS
    return {
        "evidence": Capped(bench.appraise, claims.MAX_EVIDENCE_BYTES, marks),
        "result quote": Capped(
            lambda data: appraisal.verify_result_quote(bench.policy, data, CHAIN_ID), appraisal.MAX_RESULT_QUOTE_BYTES, 2 * marks
        ),
        "gpu claims": Capped(lambda data: gpu.verify_gpu(data, bytes(32), 0), gpu.MAX_GPU_BYTES, None),
        "collateral": Capped(documents.parse_collateral, documents.MAX_COLLATERAL_BYTES, None),
        "hello": Capped(lambda data: binding.verify_hello(terms, data), binding.MAX_HELLO_BYTES, 16),
        "proof": Capped(lambda data: binding.verify_proof(terms, said, data, bench.now), binding.MAX_PROOF_BYTES, 16),
        "envelope": Capped(
            lambda data: envelope.verify_envelope(data, NAME, NAME), envelope.MAX_ENVELOPE_BYTES, envelope.MAX_ENVELOPE_MARKS
        ),
        "exchange": Capped(desk.exchange, ceremony_log.MAX_EXCHANGE_BYTES, ceremony_log.MAX_EXCHANGE_MARKS),
        "release request": Capped(lambda data: encoding.decode(ReleaseRequest, data, MAX_RELEASE_MARKS), None, MAX_RELEASE_MARKS),
        "release log": Capped(lambda data: encoding.decode(ReleaseLog, data, copies.MAX_PAGE_MARKS), None, copies.MAX_PAGE_MARKS),
    }


BYTES = ("evidence", "result quote", "gpu claims", "collateral", "hello", "proof", "envelope", "exchange")
MARKS = ("evidence", "result quote", "hello", "proof", "envelope", "exchange", "release request", "release log")
DEEP = ("evidence", "result quote", "gpu claims", "collateral", "exchange", "release request", "release log")
"""Whose other caps let so many brackets through that their depth counts."""


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch, place: Any, name: str) -> Iterator[list[str]]:
    """Calls of a parser in a library, which goes on as it was."""
    calls, real = [], getattr(place, name)

    def seen(*given: Any, **named: Any) -> Any:
        calls.append(name)
        return real(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(place, name, seen)
        yield calls


def is_parsed(monkeypatch: pytest.MonkeyPatch, read: Read, data: bytes, place: Any = json, name: str = "loads") -> bool:
    """Whether a decoder, which refuses these bytes, hands them to a parser first."""
    with watched(monkeypatch, place, name) as calls, pytest.raises(BytewiseError):
        read(data)
    return bool(calls)


def filled(kind: str, decoder: Capped, more: int) -> bytes:
    """JSON of as many bytes, elements or levels as a decoder takes, and so many more."""
    match kind:
        case "bytes":
            assert decoder.most_bytes is not None
            return b'"' + b"x" * (decoder.most_bytes - 2 + more) + b'"'
        case "elements":
            assert decoder.most_marks is not None
            return b"[" + b"0," * (decoder.most_marks - 1 + more) + b"0]"
        case _:
            depth = encoding.MAX_DEPTH + more
            return b"[" * depth + b"]" * depth


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind, names in (("bytes", BYTES), ("elements", MARKS), ("levels", DEEP)) for name in names],
)
def test_more_than_the_cap_is_not_parsed(
    decoders: dict[str, Capped], kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = decoders[name].read
    assert not is_parsed(monkeypatch, read, filled(kind, decoders[name], 1))
    assert is_parsed(monkeypatch, read, filled(kind, decoders[name], 0))


def test_ceremony_body_above_its_caps_reaches_no_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    who = party(1).signer

    def read(body: bytes) -> object:
        message = sign_message(who, NAME, Close(1, NAME))
        draft = type(message)(NAME, who.address, "close", Blob(body), Blob(b""))
        return read_message(type(message)(NAME, who.address, "close", Blob(body), who.sign(draft.digest)))

    most, marks = ceremony_log.MAX_MESSAGE_BYTES, ceremony_log.MAX_BODY_MARKS
    for data, parsed in (
        (b'"' + b"x" * (most - 1) + b'"', False), (b'"' + b"x" * (most - 2) + b'"', True),
        (b"[" + b"0," * marks + b"0]", False), (b"[" + b"0," * (marks - 1) + b"0]", True),
    ):  # fmt: skip
        assert is_parsed(monkeypatch, read, data) == parsed


@pytest.fixture(scope="module")
def amd() -> Amd:
    """One vendor."""
    return Amd()


def test_a_quote_above_the_cap_reaches_no_parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path)
    sound = bench.evidence.collateral
    assert sound is not None
    for size, parsed in ((dcap.MAX_QUOTE_BYTES + 1, False), (dcap.MAX_QUOTE_BYTES, True)):
        quote = bench.evidence.quote.ljust(size, b"\1")

        def read(data: bytes) -> object:
            found = dcap.verify_quote(bench.policy.rules[0], data, sound, bench.now)
            raise ChannelRefused("taken", found)

        assert is_parsed(monkeypatch, read, quote, dcap_qvl, "QuoteVerifier") == parsed


@pytest.mark.parametrize(("part", "most", "parser"), [
    ("ask", snp.MAX_CERTIFICATE_BYTES, "load_der_x509_certificate"), ("crl", snp.MAX_CRL_BYTES, "load_der_x509_crl"),
])  # fmt: skip
def test_amd_certificate_or_list_above_the_cap_reaches_no_parser(
    amd: Amd, part: str, most: int, parser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, asking = amd.certificates(), rule(amd, max_age_s=1)

    def read(data: bytes) -> object:
        parts = {"ask": given.ask, "vcek": given.vcek, "crl": given.crl, part: Blob(data)}
        return snp.verify_report(asking, amd.report(), SnpCertificates(**parts), NOW)

    assert not is_parsed(monkeypatch, read, bytes(most + 1), x509, parser)
    assert is_parsed(monkeypatch, read, bytes(most), x509, parser)
