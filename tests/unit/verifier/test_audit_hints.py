"""How hints travel, and what strangers can do to who takes them: use up nothing but what is set aside for strangers."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ConfigurationError, HintMismatch, UnknownAuditor
from bytewise.protocol.records.statements import Outcome
from bytewise.protocol.units import U8, Address, Digest
from bytewise.service.exit_codes import Exit, exit_of
from bytewise.service.node_files.certificates import make_certificate
from chain.reads.records import Membership, PoolMember
from tests.fixtures.builders import DISPUTES, signer, word
from tests.fixtures.metric_values import value_of
from tests.fixtures.snapshot_builders import snapshot
from tests.fixtures.verifier.verifier_fixture import VerifierFixture
from tests.fixtures.verifier.watchtower_fixture import EVERYBODY, KEY, hint
from verifier.audits.audit_hints import MAX_WAITING, PATH, HintBox, HintSender
from verifier.audits.hint_server import MAX_CONNECTIONS, MAX_FROM_ONE, MAX_HINT_BYTES, REFRESH_BLOCKS, HintServer, KnownVerifiers

VOTER = signer("voter").address


def wait(done: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(400):
        if done():
            return
        pause.wait(0.05)
    raise AssertionError("never done")


class HintSite:
    """A watchtower that listens, and a client that trusts it."""

    def __init__(self, folder: Path, exchange_s: float) -> None:
        make_certificate(folder / "tls.pem", folder / "tls.key", "127.0.0.1", "tower")
        self.certificate = folder / "tls.pem"
        self.box = HintBox(DISPUTES, {VOTER})
        self.server = HintServer(self.box, "127.0.0.1", 0, self.certificate, folder / "tls.key", exchange_s)
        self.url = f"https://127.0.0.1:{self.server.port}"
        self.trust = ssl.create_default_context(cafile=str(self.certificate))

    def silent(self, source: str = "127.0.0.1") -> socket.socket:
        """A connection that says nothing."""
        return socket.create_connection(("127.0.0.1", self.server.port), timeout=10, source_address=(source, 0))

    def post(self, path: str, body: bytes, source: str = "127.0.0.1", **headers: str) -> int:
        transport = httpx2.HTTPTransport(verify=self.trust, local_address=source)
        with httpx2.Client(transport=transport, timeout=10) as client:
            return int(client.post(self.url + path, content=body, headers=headers).status_code)


@pytest.fixture
def hint_site(tmp_path: Path) -> Iterator[HintSite]:
    made = HintSite(tmp_path, exchange_s=60)
    yield made
    made.server.close()


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[HintSite]:
    made = HintSite(tmp_path, exchange_s=0.3)
    yield made
    made.server.close()


def test_tick_waits_for_no_watchtower(tmp_path: Path) -> None:
    make_certificate(tmp_path / "tls.pem", tmp_path / "tls.key", "127.0.0.1", "tower")
    said = hint(word("receipt"), "voter")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        tell = HintSender((f"https://127.0.0.1:{silent.getsockname()[1]}",), tmp_path / "tls.pem")
        silent.settimeout(10)
        for _ in range(MAX_WAITING + 9):
            tell(said)
        assert silent.accept(), "it is being told, and nobody waits"


@pytest.mark.parametrize("content", [None, b"", b"nothing", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_wrong_certificate_file_of_watchtowers_is_a_named_setting(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "tower.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"hints\.certificate_file: tower\.pem") as caught:
        HintSender(("https://127.0.0.1:1",), file)
    assert exit_of(caught.value) == Exit.USAGE


def test_hints_reach_their_recipient_and_nothing_else_is_accepted(hint_site: HintSite) -> None:
    said = hint(word("receipt"), "voter")
    # Nobody listens at the first address, and the second is no valid URL.
    HintSender(("https://127.0.0.1:1", "https://\u2100", hint_site.url), hint_site.certificate)(said)
    wait(lambda: hint_site.box.key([said.result]) is not None)
    assert hint_site.box.key([said.result]) == KEY
    asked = ((PATH, b"no hint", 403), (PATH, bytes(MAX_HINT_BYTES + 1), 400), ("/other", encode(said), 400))
    for path, body, status in (*asked, (PATH, encode(hint(word("receipt"), "second")), 403)):
        assert hint_site.post(path, body) == status


@pytest.mark.parametrize("length", ["-1", "4097", "1e3", "\u00b2", "9" * 5000, "0" * 12 + "9999", ""])
def test_impossible_length_ends_the_exchange(hint_site: HintSite, length: str) -> None:
    with hint_site.trust.wrap_socket(hint_site.silent(), server_hostname="127.0.0.1") as client:
        client.sendall(f"POST {PATH} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n".encode("latin-1"))
        assert b" 400 " in client.recv(100)


def test_non_verifier_is_disconnected_before_its_signature_is_checked() -> None:
    forged = replace(hint(word("receipt"), "second"), signature=hint(word("receipt"), "voter").signature, nonce=word("nonce"))
    with pytest.raises(UnknownAuditor):
        HintBox(DISPUTES, {VOTER}).put(forged)
    with pytest.raises(HintMismatch):
        HintBox(DISPUTES, EVERYBODY).put(forged)


def test_altered_hint_is_refused_and_replaces_nothing() -> None:
    said, box = hint(word("receipt"), "voter"), HintBox(DISPUTES, {VOTER})
    box.put(said)
    for outcome, code in ((Outcome.INVALID, 1), (Outcome.CANNOT_EXECUTE, 0), (Outcome.EXECUTED, 1)):
        with pytest.raises(HintMismatch):
            box.put(replace(said, outcome=U8(outcome), code=U8(code)))
    assert box.key([said.result]) == KEY


def test_connections_per_address_are_bounded_and_others_are_served(hint_site: HintSite) -> None:
    held = [hint_site.silent() for _ in range(MAX_FROM_ONE)]
    wait(lambda: hint_site.server.connections == MAX_FROM_ONE)
    with hint_site.silent() as refused:
        assert refused.recv(1) == b"", "closed at once"
    said = hint(word("receipt"), "voter")
    assert hint_site.post(PATH, encode(said), source="127.0.0.2") == 204
    wait(lambda: hint_site.server.connections == MAX_FROM_ONE)
    for each in held:
        each.close()
    wait(lambda: hint_site.server.connections == 0)
    assert hint_site.post(PATH, encode(said)) == 204


def test_connections_of_all_addresses_are_bounded(hint_site: HintSite) -> None:
    threads = threading.active_count()
    crowd = [hint_site.silent(f"127.0.0.{2 + i // MAX_FROM_ONE}") for i in range(MAX_CONNECTIONS)]
    wait(lambda: hint_site.server.connections == MAX_CONNECTIONS)
    with hint_site.silent("127.0.1.1") as refused:
        assert refused.recv(1) == b""
    assert threading.active_count() <= threads + MAX_CONNECTIONS
    for each in crowd:
        each.close()
    wait(lambda: hint_site.server.connections == 0)


def test_silent_hint_connection_is_closed(hasty: HintSite) -> None:
    with hasty.silent() as client:
        assert client.recv(1) == b""
    wait(lambda: hasty.server.connections == 0)


def test_byte_by_byte_sending_extends_no_deadline(hasty: HintSite) -> None:
    with hasty.trust.wrap_socket(hasty.silent(), server_hostname="127.0.0.1") as client:
        client.sendall(f"POST {PATH} HTTP/1.0\r\n".encode())
        pause = threading.Event()
        with pytest.raises(OSError):
            for _ in range(400):
                client.sendall(b"a: b\r\n"[:1])
                pause.wait(0.05)
    wait(lambda: hasty.server.connections == 0)


def test_broken_connection_is_counted_and_prints_nothing(hint_site: HintSite, capfd: pytest.CaptureFixture[str]) -> None:
    name = "bytewise_hints_refused_total"
    before = value_of(name, reason="broken")
    with hint_site.silent() as client:
        client.sendall(b"this is no handshake\r\n\r\n")
    wait(lambda: value_of(name, reason="broken") > before)
    wait(lambda: hint_site.server.connections == 0)
    assert "Traceback" not in capfd.readouterr().err


class Roll:
    """Pools as the chain shows them."""

    def __init__(self, *who: tuple[Address, int]) -> None:
        self.who, self.reads = list(who), 0

    def pool_of(self, environment: Digest, block: int) -> Digest:
        return word("pool of", environment)

    def verifiers(self, pool: Digest, block: int) -> tuple[PoolMember, ...]:
        self.reads += 1
        membership = Membership(pool, word("machine"), word("measurement"), 0)
        return tuple(PoolMember(who, i, 1, stake, membership) for i, (who, stake) in enumerate(self.who))


def test_members_are_read_periodically_and_never_on_request(setup: VerifierFixture) -> None:
    roll = Roll((VOTER, 10), (signer("left").address, 0))
    members = KnownVerifiers(roll, setup.records)
    setup.anchor(setup.signed(1))
    setup.records.step(setup.chain.now())
    start = setup.chain.number
    for number in range(start, start + REFRESH_BLOCKS):
        members.step(snapshot(number=number))
        assert VOTER in members and signer("left").address not in members and signer("stranger").address not in members
    assert roll.reads == 1
    roll.who = [(signer("new").address, 5)]
    members.step(snapshot(number=start + REFRESH_BLOCKS))
    assert roll.reads == 2 and signer("new").address in members and VOTER not in members
