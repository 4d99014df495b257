"""Certificates, durations, encoding 0 and the folder of blobs."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.da.conventions import ProxyRefusal, certify, encode_payload, parse_certificate
from bytewise.da.store import BlobFolder, FaultSettings, go_duration, parse_go_duration
from bytewise.protocol.errors.actors import FailOver, TryAgain
from bytewise.protocol.errors.records import MalformedValue


@given(payload=st.binary(max_size=300), nonce=st.binary(min_size=16, max_size=16), version=st.sampled_from([2, 3]))
def test_a_certificate_decodes_to_itself(payload: bytes, nonce: bytes, version: int) -> None:
    certificate = certify(payload, version, nonce)
    assert parse_certificate(certificate.encode()) == certificate


@given(data=st.binary(max_size=120), at=st.integers(0, 99), byte=st.integers(1, 255))
def test_other_bytes_are_no_certificate_or_encode_to_themselves(data: bytes, at: int, byte: int) -> None:
    good = bytearray(certify(b"payload", 3, bytes(16)).encode())
    good[at % len(good)] ^= byte
    for tried in (data, bytes(good), bytes(good) + b"\x00"):
        try:
            assert parse_certificate(tried).encode() == tried
        except MalformedValue:
            pass


@pytest.mark.parametrize(
    ("text", "seconds"), [("0s", 0), ("25m0s", 1500), ("1h0m0s", 3600), ("1.5s", 1.5), ("250ms", 0.25), ("336h0m0s", 1209600)]
)
def test_go_durations_are_read_and_written(text: str, seconds: float) -> None:
    assert parse_go_duration(text) == seconds and go_duration(seconds) == text


@pytest.mark.parametrize("text", ["", "5", "s", "1s2", "-1s", "1 s", "1d", 3, None])
def test_other_durations_are_refused(text: object) -> None:
    with pytest.raises(MalformedValue):
        parse_go_duration(text)


@pytest.mark.parametrize("change", [[], {"Nothing": 1}, {"CertVersion": 2}, {"PutReturnsFailoverError": 1},
                                    {"NullableDerivationError": {"StatusCode": 5}}, {"NullableDerivationError": 3}])  # fmt: skip
def test_other_store_parameters_are_refused(change: object) -> None:
    with pytest.raises(MalformedValue):
        FaultSettings(60.0).patched(change)


@given(payload=st.binary(max_size=400))
def test_encoding_0_has_a_length_and_a_zero_before_every_31_bytes(payload: bytes) -> None:
    encoded = encode_payload(payload)
    symbols = [encoded[at : at + 32] for at in range(0, len(encoded), 32)]
    assert len(symbols).bit_count() == 1 and all(symbol[0] == 0 for symbol in symbols)
    assert int.from_bytes(encoded[2:6], "big") == len(payload)
    assert b"".join(symbol[1:] for symbol in symbols[1:])[: len(payload)] == payload


def test_a_blob_survives_a_restart_and_expires(tmp_path: Path) -> None:
    certificate = certify(b"payload", 3, bytes(16))
    BlobFolder(tmp_path, 10_000).put(certificate, b"payload", 100, 200, ProxyRefusal(3, "bad"))
    again = BlobFolder(tmp_path, 10_000)
    assert again.get(certificate, 199) == (b"payload", ProxyRefusal(3, "bad"))
    with pytest.raises(TryAgain, match="expired"):
        again.get(certificate, 200)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_blob_is_not_served(tmp_path: Path) -> None:
    certificate, blobs = certify(b"payload", 3, bytes(16)), BlobFolder(tmp_path, 10_000)
    blobs.put(certificate, b"payload", 100, 200, None)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes().replace(b"payload", b"pAyload"))
    with pytest.raises(TryAgain, match="damaged"):
        blobs.get(certificate, 150)


def test_a_full_folder_fails_over_until_something_expires(tmp_path: Path) -> None:
    blobs = BlobFolder(tmp_path, 1_000)
    blobs.put(certify(bytes(800), 3, bytes(16)), bytes(800), 100, 200, None)
    with pytest.raises(FailOver):
        blobs.put(certify(bytes(801), 3, bytes(16)), bytes(801), 150, 900, None)
    blobs.put(certify(bytes(801), 3, bytes(16)), bytes(801), 200, 900, None)
    assert len(list(tmp_path.iterdir())) == 1


def test_half_written_blob_is_removed_at_start(tmp_path: Path) -> None:
    (tmp_path / "ab.part").write_bytes(b"half")
    BlobFolder(tmp_path, 1_000)
    assert list(tmp_path.iterdir()) == []
