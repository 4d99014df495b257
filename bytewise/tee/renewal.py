"""Renews the collateral for a machine's quotes (`tdx`). The program fetches collateral for a quote of this machine, verifies it
and stores it.

Intel's collateral expires after 30 days. From then on, everybody refuses a quote with this collateral. The enclave has no
network, so a process beside it renews the file that its quoter reads. The service's answer is not trusted: before it replaces the
file, the collateral must verify the quote under Intel's root, as a shard would check it. SNP evidence has no part that expires
monthly.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import dcap_qvl
from cryptography.hazmat.primitives.serialization import Encoding

from bytewise.protocol import digests
from bytewise.protocol.errors.actors import ConfigurationError, EvidenceRefused, TryAgain
from bytewise.protocol.errors.evidence import UntrustedRoot
from bytewise.protocol.evidence.appraisal_policy import MAX_OUT_OF_DATE_GRACE_S, EvidenceType, PlatformRule, TcbStatus
from bytewise.protocol.units import Blob
from bytewise.service import telemetry
from bytewise.service.files import replace_file
from bytewise.tee.appraisal import VENDOR_ROOTS
from bytewise.tee.dcap import verify_quote
from bytewise.tee.documents import MAX_COLLATERAL_BYTES, issued_at, parse_collateral, read_chain, read_object

NAME = "collateral.json"
"""Name of the collateral file in the folder of endorsements."""
LOOK_S = 3600.0
"""Number of seconds between two checks of the file's age. After a failed renewal the next check tries again."""


@dataclass(frozen=True, slots=True)
class CollateralSettings:
    """Section `[collateral]`: renewal of the collateral for this machine's quotes (evidence `tdx`)."""

    service_url: str = dcap_qvl.INTEL_PCS_URL
    """URL of Intel's provisioning service, or of a cache of it (PCCS). Its answers are verified."""
    renew_after_s: int = 86_400
    """Age of the collateral file, in seconds, at which it is renewed."""
    timeout_s: float = 60.0
    """Longest time of one renewal, in seconds."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.service_url)
        if parts.scheme not in ("https", "http") or not parts.hostname:
            raise ConfigurationError("service_url", "is not https://… or http://…")
        if self.renew_after_s <= 0 or not self.timeout_s > 0:
            raise ConfigurationError("renew_after_s, timeout_s", "must be above zero")


class Renewed(NamedTuple):
    """Result of one renewal."""

    expires_at: int
    """Unix second at which the collateral in the file expires, after this renewal."""
    replaced: bool
    """Whether the file was replaced by the service's collateral."""


def fetch(service_url: str, quote: bytes, timeout_s: float) -> bytes:
    """Returns the service's answer for the platform of a quote, as JSON. Raises `TryAgain` if the service does not answer."""

    async def ask() -> dcap_qvl.QuoteCollateralV3:
        return await asyncio.wait_for(dcap_qvl.get_collateral(service_url, quote), timeout_s)

    try:
        answer = asyncio.run(ask())
    except TimeoutError:
        raise TryAgain("collateral service", f"no answer in {timeout_s:g} s") from None
    except ValueError as error:
        raise TryAgain("collateral service", str(error)[:300]) from None
    return str(answer.to_json()).encode()


def renew(
    settings: CollateralSettings, folder: Path, quote: bytes, now: int, roots: frozenset[str] = VENDOR_ROOTS[EvidenceType.TDX]
) -> Renewed:
    """Fetches collateral for a quote of this machine. Replaces the file in the folder if the new collateral is good and not older
    than the stored collateral.

    Raises `TryAgain` if the service does not answer. Raises `EvidenceRefused`, and keeps the old file, if the collateral does not
    verify the quote at Unix second `now` under one of the roots. Each root is the SHA-256 of a certificate, in hex.
    """
    document = fetch(settings.service_url, quote, settings.timeout_s)
    collateral = parse_collateral(document)
    rule = _rule(document, roots)
    claims = verify_quote(rule, quote, collateral, now)
    kept = _newer_expiry(folder / NAME, issued_at(collateral), rule, quote, now)
    if kept is not None:
        # A cache may be behind. Its collateral is good, but expires earlier than the stored one.
        telemetry.log("collateral.kept", why="the service has older collateral")
        return Renewed(kept, False)
    replace_file(folder / NAME, document)
    return Renewed(claims.expires_at, True)


class CollateralRenewal:
    """Renewal of the collateral of one machine. `look` is called periodically."""

    def __init__(
        self, settings: CollateralSettings, folder: Path, quote: Callable[[], bytes], now: Callable[[], int],
        roots: frozenset[str] = VENDOR_ROOTS[EvidenceType.TDX],
    ) -> None:  # fmt: skip
        """`quote` makes a quote of this machine, and `now` returns the Unix second. `roots` are the accepted roots of the
        vendor."""
        self._settings = settings
        self._folder = folder
        self._quote = quote
        self._now = now
        self._roots = roots

    def look(self) -> None:
        """Renews the file if it is missing, too old or dated in the future. Raises the errors of `renew`."""
        path = self._folder / NAME
        if not path.exists() or not 0 <= self._now() - path.stat().st_mtime < self._settings.renew_after_s:
            self.renew()

    def renew(self) -> Renewed:
        """Renews the file now. Raises the errors of the function `renew` and of the quoter."""
        renewed = renew(self._settings, self._folder, self._quote(), self._now(), self._roots)
        if not renewed.replaced:
            (self._folder / NAME).touch()
        telemetry.log("collateral.renewed", replaced=renewed.replaced, expires_at=renewed.expires_at)
        return renewed


def _rule(document: bytes, roots: frozenset[str]) -> PlatformRule:
    """Returns the widest rule under a trusted root. The appraisal policy, not this module, decides whether a platform's status
    is accepted."""
    root = _root_of(document)
    if digests.sha256(root).hex() not in roots:
        raise UntrustedRoot("the certificates of the collateral do not end at a root of the vendor")
    statuses = tuple(each for each in TcbStatus if each is not TcbStatus.REVOKED)
    return PlatformRule(
        type=EvidenceType.TDX, root=root, statuses=statuses, refused_advisories=(), min_evaluation=1, min_tcb=Blob(b""), smt=True,
        dynamic_platform=True, cached_keys=True, platforms=(), max_age_s=MAX_OUT_OF_DATE_GRACE_S,
        out_of_date_grace_s=MAX_OUT_OF_DATE_GRACE_S,
    )  # fmt: skip


def _root_of(document: bytes) -> Blob:
    """Returns the last certificate of the chain in the service's answer. It is trusted as a root only if its digest is in the
    list of roots."""
    chain = read_object(document, "collateral").get("pck_crl_issuer_chain")
    return Blob(read_chain(str(chain).encode())[-1].public_bytes(Encoding.DER))


def _newer_expiry(path: Path, issued: int, rule: PlatformRule, quote: bytes, now: int) -> int | None:
    """Returns the Unix second at which the stored collateral expires, if it is good and newer than `issued`. Returns None
    otherwise."""
    try:
        with path.open("rb") as file:
            stored = parse_collateral(file.read(MAX_COLLATERAL_BYTES + 1))
        return verify_quote(rule, quote, stored, now).expires_at if issued_at(stored) > issued else None
    except (OSError, EvidenceRefused):
        return None
