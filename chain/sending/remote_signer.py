"""A remote signer with the REST interface of web3signer for execution-layer keys, over TLS with client certificates.

Source: Consensys/web3signer, `openapi-specs/eth1/web3signer.yaml` at 3522fc87. `GET /api/v1/eth1/publicKeys` lists the
uncompressed public keys; `POST /api/v1/eth1/sign/{public key}` takes `{"data": "0x…"}`, signs keccak256 of the data, and answers
with r ‖ s ‖ v in hex. The signer is not trusted: every signature is checked by recovering its account.
"""

import json
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

import httpx2
from eth_keys.datatypes import PublicKey
from eth_utils.exceptions import ValidationError

from bytewise.protocol.encoding import verify_depth
from bytewise.protocol.errors.actors import ConfigurationError, SignerAway, SignerRefused
from bytewise.protocol.errors.records import TooLarge
from bytewise.protocol.signing import Preimage, has_high_s, preimage_digest, recover
from bytewise.protocol.units import Address, Blob, hex0x
from bytewise.service import metrics
from bytewise.service.clock import monotonic_s
from bytewise.service.http.deadline import TimedTransport
from bytewise.service.secret import read_secret

ATTEMPTS = 3
"""Largest number of tries for one answer. All tries share one time limit."""
BACKOFF_S = 0.2
"""Seconds before the second try. Each further try doubles them."""
PAUSE_S = 2.0
"""Seconds after a failure during which the signer is not asked, so that ten transactions of one tick do not wait ten times."""
MAX_ANSWER_BYTES = 2**20
"""Largest answer that is read: some 7,000 public keys."""
_RETRIED = frozenset({408, 429, 500, 502, 503, 504})
_SIGN, _KEYS = "/api/v1/eth1/sign/", "/api/v1/eth1/publicKeys"


T = TypeVar("T")


class _SignerReply(NamedTuple):
    """The answer of the signer to one request."""

    status: int
    body: bytes


class RemoteSigner:
    """One account whose key is at a remote signer. Threads may share it."""

    def __init__(self, url: str, account: Address, trust: ssl.SSLContext, timeout_s: float) -> None:
        """`timeout_s` is the time limit of one signature, including all tries."""
        self.address: Address = account
        self.name = urlsplit(url).netloc.rpartition("@")[2]
        """Host and port of the signer, for error messages."""
        self._url = url.rstrip("/")
        self._timeout_s = timeout_s
        # Ignore the proxy settings of the environment: only the named host is asked.
        self._http = httpx2.Client(transport=TimedTransport(trust), timeout=timeout_s, follow_redirects=False, trust_env=False)
        self._identifier = ""
        self._not_before = 0.0

    def __repr__(self) -> str:
        return f"RemoteSigner({self.address} at {self.name})"

    def sign_preimage(self, preimage: Preimage) -> Blob:
        """Returns the 65-byte signature r ‖ s ‖ v over keccak256 of the preimage.

        Raises `SignerAway` if there is no answer in time. Raises `SignerRefused` if the signer refuses or has no such key, or if
        its answer is not this account's signature of this preimage with low s.
        """
        return self._measured(lambda until: self._sign(preimage, until))

    def identify(self) -> str:
        """Returns the public key of the account, as the signer lists it. Raises the errors of `sign_preimage`."""
        return self._measured(self._find)

    def _measured(self, ask: Callable[[float], T]) -> T:
        """Asks the signer within the time limit, and counts and measures the request. Raises `SignerAway` at once for a time
        after a failure."""
        began, result = monotonic_s(), "ok"
        if began < self._not_before:
            raise SignerAway(self.name, "it did not sign a moment ago")
        try:
            return ask(began + self._timeout_s)
        except SignerAway:
            result, self._not_before = "away", monotonic_s() + PAUSE_S
            raise
        except SignerRefused:
            result = "refused"
            raise
        finally:
            metrics.SIGNER_REQUESTS.labels(result=result).inc()
            metrics.SIGNER_SECONDS.observe(monotonic_s() - began)

    def _sign(self, preimage: Preimage, until: float) -> Blob:
        # A signer names a key by its public key, not by its account.
        identifier = self._identifier = self._identifier or self._find(until)
        reply = self._asked("POST", _SIGN + identifier, {"data": hex0x(preimage)}, until)
        if reply.status != httpx2.codes.OK:
            self._identifier = ""
            raise SignerRefused(self.name, f"refuses to sign for {self.address}: HTTP {reply.status}")
        return self._verified(preimage, reply.body)

    def _verified(self, preimage: Preimage, body: bytes) -> Blob:
        """Returns the signature in an answer. Raises `SignerRefused` unless it is this account's signature of the preimage with
        low s."""
        try:
            signature = bytes.fromhex(body.decode("ascii").strip().removeprefix("0x"))
        except ValueError:
            raise SignerRefused(self.name, f"its signature is not hex: {len(body)} bytes") from None
        if len(signature) != 65 or signature[64] not in (27, 28):
            raise SignerRefused(self.name, f"its signature is malformed: {len(signature)} bytes, or v is not 27 or 28")
        if has_high_s(signature):
            raise SignerRefused(self.name, "its signature has a high s, which contracts refuse")
        signed = recover(preimage_digest(preimage), signature)
        if signed != self.address:
            raise SignerRefused(self.name, f"its signature is of {signed or 'nobody'}, not of {self.address}")
        return Blob(signature)

    def _find(self, until: float) -> str:
        """Returns the identifier of this account's key, which is its public key in hex. Raises `SignerRefused` if the signer does
        not list it."""
        reply = self._asked("GET", _KEYS, None, until)
        if reply.status != httpx2.codes.OK:
            raise SignerRefused(self.name, f"does not list its keys: HTTP {reply.status}")
        try:
            listed = json.loads(verify_depth(reply.body))
        except (ValueError, TooLarge):
            listed = None
        if not isinstance(listed, list):
            raise SignerRefused(self.name, f"its list of keys is no list: {len(reply.body)} bytes")
        for each in listed:
            key = _key_of(each)
            if key is not None and key.to_address() == self.address:
                return hex0x(key.to_bytes())
        raise SignerRefused(self.name, f"has no key of {self.address}; it lists {len(listed)} others")

    def _asked(self, method: str, path: str, body: dict[str, str] | None, until: float) -> _SignerReply:
        """Makes a request and returns the answer. It tries again while the signer does not answer or cannot sign now."""
        why = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                threading.Event().wait(min(BACKOFF_S * 2 ** (attempt - 1), max(until - monotonic_s(), 0.0)))
            if monotonic_s() >= until:
                break
            try:
                reply = self._ask(method, path, body, until)
            except httpx2.HTTPError as error:
                why = f"{type(error).__name__} {str(error)[:160]}".strip() + _hint(error)
                continue
            if reply.status not in _RETRIED:
                return reply
            why = f"HTTP {reply.status}"
        raise SignerAway(self.name, why or f"no answer in {self._timeout_s:g} s")

    def _ask(self, method: str, path: str, body: dict[str, str] | None, until: float) -> _SignerReply:
        """Makes one request, and reads the answer within the time limit and the size limit."""
        left_s = max(until - monotonic_s(), 0.001)
        with self._http.stream(method, self._url + path, json=body, timeout=left_s) as response:
            content = bytearray()
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) > MAX_ANSWER_BYTES:
                    raise SignerRefused(self.name, f"its answer is longer than {MAX_ANSWER_BYTES} bytes")
        return _SignerReply(response.status_code, bytes(content))


def mutual_trust(ca_file: Path, certificate_file: Path, key_file: Path) -> ssl.SSLContext:
    """Returns a TLS context that trusts one authority and shows a client certificate. Raises `ConfigurationError`, which names
    the wrong file."""
    try:
        trust = ssl.create_default_context(cafile=str(ca_file))
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(ca_file.name, f"no certificates of the signer: {error}") from None
    read_secret(key_file)
    try:
        # OpenSSL would ask for the password of an encrypted key at the terminal. With the empty password it fails instead.
        trust.load_cert_chain(certificate_file, key_file, password="")
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"{certificate_file.name}, {key_file.name}", f"no client certificate with its key, both PEM: {error}"
        ) from None
    return trust


def _hint(error: httpx2.HTTPError) -> str:
    # With TLS 1.3 the handshake is over for the client before the server looks at its certificate.
    ended = isinstance(error, httpx2.RemoteProtocolError | httpx2.ReadError)
    return " (a signer that does not know client_cert_file ends the connection so)" if ended else ""


def _key_of(listed: object) -> PublicKey | None:
    try:
        return PublicKey(bytes.fromhex(str(listed).removeprefix("0x")))
    except (ValueError, ValidationError):
        return None
