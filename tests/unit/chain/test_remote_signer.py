"""A remote signer over TLS with client certificates: equal bytes, and every lie, refusal and silence is named."""

import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import Response

from bytewise.protocol.errors.actors import ConfigurationError, SignerAway, SignerRefused
from bytewise.protocol.signing import ALTERNATIVE, LocalSigner, Preimage, labelled_preimage, typed_preimage
from bytewise.service.clock import monotonic_s
from chain.client.rpc import ChainClient
from chain.sending.keys import open_signer
from chain.sending.remote_signer import ATTEMPTS, MAX_ANSWER_BYTES
from chain.sending.transactions import Fees, TransactionCall, sign
from tests.fixtures.builders import ANCHOR, CHAIN_ID, signer, word
from tests.fixtures.chain.signer_service import Change, SignerFiles, make_signer_files, public_key, running_signer
from tests.fixtures.metric_values import value_of
from tests.fixtures.trickling_server import trickling
from tests.fixtures.verifier.verifier_fixture import NETWORK, WORLD

KEY, OTHER = signer("account"), signer("other")
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
SALT = labelled_preimage(ALTERNATIVE, word("dispute"))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> SignerFiles:
    return make_signer_files(tmp_path_factory.mktemp("signer"))


@pytest.fixture(scope="module")
def url(files: SignerFiles) -> Iterator[str]:
    with running_signer(files, [OTHER, KEY]) as where:
        yield where


def test_transactions_and_typed_data_are_those_of_a_local_key(files: SignerFiles, url: str) -> None:
    remote, client = open_signer(files.section(url, KEY.address), NETWORK), ChainClient("http://127.0.0.1:1", CHAIN_ID, 1.0)
    before, timed = value_of("bytewise_signer_requests_total", result="ok"), value_of("bytewise_signer_seconds_count")
    assert remote.address == KEY.address and remote.check().ok
    to, fees = NETWORK.addresses.receipt_anchor, Fees(3 * 10**9, 10**9)
    for nonce in (0, 1, 128):
        calls = [TransactionCall(key, to, bytes(nonce), 10**18, 90_000) for key in (KEY, remote)]
        assert sign(client, calls[0], nonce, fees) == sign(client, calls[1], nonce, fees)
    receipt = WORLD.answered(3).receipt
    for preimage in (typed_preimage(ANCHOR, receipt), SALT):
        assert remote.sign_preimage(preimage) == KEY.sign_preimage(preimage)
    assert value_of("bytewise_signer_requests_total", result="ok") >= before + 5
    assert value_of("bytewise_signer_seconds_count") >= timed + 5


class Liar:
    """A signer whose answers a test changes."""

    url: str
    change: Change

    def __call__(self, key: str, data: bytes, true: Response) -> Response:
        return self.change(key, data, true)


@pytest.fixture(scope="module")
def liar(files: SignerFiles) -> Iterator[Liar]:
    made = Liar()
    with running_signer(files, [KEY], made) as made.url:
        yield made


def answer(text: str | bytes, status: int = 200) -> Change:
    return lambda _key, _data, _answer: Response(text, status)


def high_s(_key: str, data: bytes, _answer: Response) -> Response:
    signature = KEY.sign_preimage(Preimage(data))
    s = ORDER - int.from_bytes(signature[32:64])
    return Response("0x" + (signature[:32] + s.to_bytes(32) + bytes([55 - signature[64]])).hex())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (answer("0x" + OTHER.sign_preimage(SALT).hex()), OTHER.address),
        (answer("0x" + KEY.sign_preimage(labelled_preimage(ALTERNATIVE, word("elsewhere"))).hex()), "not of " + KEY.address),
        (high_s, "high s"),
        (answer("0x" + KEY.sign_preimage(SALT).hex()[:-2]), "64 bytes"),
        (answer("0x" + (KEY.sign_preimage(SALT)[:64] + b"\0").hex()), "v is not 27 or 28"),
        (answer("0x" + bytes(64).hex() + "1b"), "of nobody"),
        (answer("garbage"), "not hex"),
        (answer(b"\xff\xfe"), "not hex"),
        (answer(""), "0 bytes"),
        (answer("a" * (MAX_ANSWER_BYTES + 1)), "longer than"),
        (answer("no", 403), "HTTP 403"),
        (answer("no", 404), "HTTP 404"),
        (answer("elsewhere", 302), "HTTP 302"),
    ],
)
def test_lie_or_refusal_of_a_signer_is_named(files: SignerFiles, liar: Liar, change: Change, said: str) -> None:
    liar.change = change
    account = open_signer(files.section(liar.url, KEY.address), NETWORK)
    with pytest.raises(SignerRefused) as found:
        account.sign_preimage(SALT)
    assert said in str(found.value) and KEY.secret.hex() not in str(found.value)


def test_signer_without_the_key_is_named(files: SignerFiles) -> None:
    with running_signer(files, [OTHER]) as where:
        account = open_signer(files.section(where, KEY.address), NETWORK)
        with pytest.raises(SignerRefused, match=f"has no key of {KEY.address}; it lists 1 others"):
            account.sign_preimage(SALT)
        found = account.check()
        assert not found.ok and KEY.address in found.value and "[signer]" in found.advice


def test_signer_that_fails_is_asked_a_bounded_number_of_times(files: SignerFiles, liar: Liar) -> None:
    asked: list[str] = []

    def fails(key: str, _data: bytes, true: Response) -> Response:
        asked.append(key)
        return Response("", 500) if len(asked) < ATTEMPTS or len(asked) > ATTEMPTS + 1 else true

    liar.change = fails
    account = open_signer(files.section(liar.url, KEY.address), NETWORK)
    assert account.sign_preimage(SALT) == KEY.sign_preimage(SALT), "the third try succeeds"
    assert asked == [public_key(KEY)] * ATTEMPTS
    account.sign_preimage(SALT)
    with pytest.raises(SignerAway, match="HTTP 500"):
        account.sign_preimage(SALT)
    assert len(asked) == 2 * ATTEMPTS + 1
    with pytest.raises(SignerAway, match="a moment ago"):
        account.sign_preimage(SALT)
    assert len(asked) == 2 * ATTEMPTS + 1, "nothing is asked right after a failure"


def test_hanging_signer_is_unavailable_after_its_time(files: SignerFiles, liar: Liar) -> None:
    done = threading.Event()

    def hangs(_key: str, _data: bytes, true: Response) -> Response:
        done.wait(20)
        return true

    liar.change = hangs
    account = open_signer(files.section(liar.url, KEY.address, timeout_s=0.5), NETWORK)
    began = monotonic_s()
    with pytest.raises(SignerAway, match="Timeout"):
        account.sign_preimage(SALT)
    assert monotonic_s() - began < 15, "it waited for the whole answer"
    done.set()


@pytest.mark.parametrize("part", ["handshake", "head", "body"])
def test_signer_that_drips_is_unavailable_after_its_time(files: SignerFiles, part: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    with trickling(part, context) as port:
        account = open_signer(files.section(f"https://127.0.0.1:{port}", KEY.address, timeout_s=1.0), NETWORK)
        began = monotonic_s()
        with pytest.raises(SignerAway, match="Timeout"):
            account.sign_preimage(SALT)
        assert monotonic_s() - began < 60, "it read on: the signer would go on for two minutes"


def test_signer_that_is_away_is_unavailable(files: SignerFiles) -> None:
    account = open_signer(files.section("https://127.0.0.1:1", KEY.address), NETWORK)
    before = value_of("bytewise_signer_requests_total", result="away")
    with pytest.raises(SignerAway, match=r"127\.0\.0\.1:1 does not sign: ConnectError"):
        account.sign_preimage(SALT)
    assert value_of("bytewise_signer_requests_total", result="away") == before + 1


def test_neither_end_accepts_a_foreign_certificate(files: SignerFiles, url: str, tmp_path: Path) -> None:
    foreign = make_signer_files(tmp_path)
    changes = {"client_cert_file": foreign.client_certificate, "client_key_file": foreign.client_key}
    for change, said in ((changes, "client_cert_file"), ({"ca_file": foreign.certificate}, "CERTIFICATE_VERIFY_FAILED")):
        account = open_signer(files.section(url, KEY.address, **change), NETWORK)
        with pytest.raises(SignerAway, match=said):
            account.sign_preimage(SALT)


@pytest.mark.parametrize("wrong", ["ca_file", "client_cert_file", "client_key_file"])
def test_malformed_certificate_file_is_named(files: SignerFiles, url: str, wrong: str, tmp_path: Path) -> None:
    for content in (None, b"nothing"):
        file = tmp_path / "wrong.pem"
        if content is not None:
            file.write_bytes(content)
            file.chmod(0o600)
        with pytest.raises(ConfigurationError, match=r"wrong\.pem"):
            open_signer(files.section(url, KEY.address, **{wrong: file}), NETWORK)


def test_client_key_that_others_can_read_is_refused(files: SignerFiles, url: str, tmp_path: Path) -> None:
    open_key = tmp_path / "client.key"
    open_key.write_bytes(files.client_key.read_bytes())
    open_key.chmod(0o644)
    with pytest.raises(ConfigurationError, match="only the owner"):
        open_signer(files.section(url, KEY.address, client_key_file=open_key), NETWORK)


def test_printed_signer_shows_no_key(files: SignerFiles, url: str) -> None:
    remote, local = open_signer(files.section(url, KEY.address), NETWORK), LocalSigner(KEY.secret)
    assert KEY.secret.hex() not in repr(remote) + repr(local) + remote.check().value
