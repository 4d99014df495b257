"""Opens the quoter that a program's settings name: the one of this machine, or the simulator.

The quoter for real hardware reads reports through the kernel's configfs-tsm (Linux 6.7 or later;
Documentation/ABI/testing/configfs-tsm). A process in production mode cannot import the simulator (fence 3, design section 7).
"""

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding

from bytewise.ports import Quoter
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.errors.evidence import EvidenceMalformed
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.evidence.appraisal_policy import TEST_CHAIN_IDS, EvidenceType
from bytewise.protocol.evidence.claims import REPORT_DATA_BYTES, SNP_REPORT_BYTES, Evidence, SnpCertificates
from bytewise.protocol.units import Blob
from bytewise.tee.documents import MAX_COLLATERAL_BYTES, parse_collateral, read_chain

SIMULATOR = "bytewise.tee_simulated"
REPORTS = Path("/sys/kernel/config/tsm/report")
"""Folder of the configfs-tsm interface in the kernel's file system."""
PROVIDERS = {"tdx_guest": EvidenceType.TDX, "sev_guest": EvidenceType.SNP}
"""Maps each supported value of the kernel's attribute `provider` to the type of evidence."""
ATTEMPTS = 3
"""Number of attempts to read a report while another process uses the same entry."""
MAX_OUTPUT_BYTES = 64 * 1024


class ProcessMode:
    """Mode of this process. It is stored in the class, because it belongs to the whole process."""

    production = False
    """Whether the process is in production. Only `enter_production` sets it."""


def enter_production() -> None:
    """Puts the process into production, permanently. Raises `ConfigurationError` if the simulator is already loaded."""
    loaded = sorted(name for name in sys.modules if name.startswith(SIMULATOR + "."))
    if loaded:
        raise ConfigurationError("production", f"{loaded[0]} is loaded")
    ProcessMode.production = True


def refuse_in_production() -> None:
    """Raises `ConfigurationError` in a production process. Every module of the simulator calls this function when it is
    imported."""
    if ProcessMode.production:
        raise ConfigurationError(SIMULATOR, "imported in a production process")


class ConfigfsQuoter:
    """Quoter for real hardware. It implements `bytewise.ports.Quoter` with its own entry in configfs, which `close` removes.

    The machine's owner keeps the folder `endorsements` current. For `tdx` the folder has `collateral.json` in the form of Intel's
    services. For `snp` it has `ask.pem` and `vcek.pem`, and also `crl.der` if rules require a revocation list. The quoter reads
    the folder for each quote. It only parses the files: whether their content is valid shows when the evidence is appraised.
    """

    def __init__(self, endorsements: Path, reports: Path = REPORTS, name: str = "bytewise") -> None:
        self._endorsements = endorsements
        # Threads of this process take turns; another process has its own entry.
        self._lock = threading.Lock()
        self._entry = reports / f"{name}-{os.getpid()}"
        try:
            self._entry.mkdir()
        except OSError as error:
            raise ConfigurationError("configfs-tsm", f"{reports}: {error.strerror}") from None
        try:
            provider = self._read("provider").decode(errors="replace").strip()
            if provider not in PROVIDERS:
                raise ConfigurationError(
                    "configfs-tsm", f"provider {provider[:40]} is not supported: it must be tdx_guest or sev_guest"
                )
        except ConfigurationError:
            self.close()
            raise
        self.type = PROVIDERS[provider]

    def quote(self, report_data: bytes) -> Blob:
        """Returns evidence over 64 bytes of report data. Raises `TryAgain` while another process uses the entry. Raises
        `ConfigurationError` if the kernel refuses, or if a file of the folder is missing or is no certificate. Raises
        `EvidenceMalformed` if the collateral does not parse, and `MalformedValue` if `report_data` has another length."""
        quote = self.raw_quote(report_data)
        if self.type is EvidenceType.TDX:
            return Blob(
                encode(Evidence(self.type, quote, parse_collateral(self._endorsement("collateral.json")), None, Blob(b"")))
            )
        crl = self._endorsement("crl.der") if (self._endorsements / "crl.der").exists() else b""
        certificates = SnpCertificates(self._certificate("ask.pem"), self._certificate("vcek.pem"), Blob(crl))
        return Blob(encode(Evidence(self.type, Blob(quote[:SNP_REPORT_BYTES]), None, certificates, Blob(b""))))

    def raw_quote(self, report_data: bytes) -> Blob:
        """Returns the report that the machine itself signs over 64 bytes of report data, without endorsements. Raises the
        errors of `quote`."""
        if len(report_data) != REPORT_DATA_BYTES:
            raise MalformedValue("report data", f"{len(report_data)} bytes instead of {REPORT_DATA_BYTES}")
        with self._lock:
            return Blob(self._report(report_data))

    def close(self) -> None:
        """Removes the entry from configfs."""
        with contextlib.suppress(OSError):
            self._entry.rmdir()

    def _report(self, report_data: bytes) -> bytes:
        # `generation` counts writes. The report belongs to this process only if no other process wrote between its write and its
        # read.
        for _ in range(ATTEMPTS):
            before = self._generation()
            self._write("inblob", report_data)
            if self._generation() != before + 1:
                continue
            found = self._read("outblob")
            if found and self._generation() == before + 1:
                return found
        raise TryAgain("configfs-tsm", f"entry {self._entry.name} is used by another process")

    def _generation(self) -> int:
        text = self._read("generation").strip()
        if not text.isdigit():
            raise ConfigurationError("configfs-tsm", "generation is no number")
        return int(text)

    def _read(self, attribute: str) -> bytes:
        with self._named(attribute), (self._entry / attribute).open("rb") as file:
            found = file.read(MAX_OUTPUT_BYTES + 1)
        if len(found) > MAX_OUTPUT_BYTES:
            raise ConfigurationError("configfs-tsm", f"{attribute} of more than {MAX_OUTPUT_BYTES} bytes")
        return found

    def _write(self, attribute: str, data: bytes) -> None:
        # Unbuffered, because the kernel takes each write call as a whole value.
        with self._named(attribute), (self._entry / attribute).open("wb", buffering=0) as file:
            file.write(data)

    @contextlib.contextmanager
    def _named(self, attribute: str) -> Iterator[None]:
        try:
            yield
        except BlockingIOError:
            raise TryAgain("configfs-tsm", f"{attribute} is not ready") from None
        except OSError as error:
            raise ConfigurationError("configfs-tsm", f"{attribute}: {error.strerror}") from None

    def _endorsement(self, name: str) -> bytes:
        try:
            with (self._endorsements / name).open("rb") as file:
                return file.read(MAX_COLLATERAL_BYTES + 1)
        except OSError as error:
            raise ConfigurationError(name, error.strerror) from None

    def _certificate(self, name: str) -> Blob:
        try:
            return Blob(read_chain(self._endorsement(name))[0].public_bytes(Encoding.DER))
        except EvidenceMalformed:
            raise ConfigurationError(name, "is no certificate") from None


def verify_attestation(
    evidence: EvidenceType, platform_file: Path | None, endorsements: Path | None, insecure_accept_simulated: bool, chain_id: int
) -> EvidenceType:
    """Checks that the settings allow this type of evidence, and returns the type. Raises `ConfigurationError` if a setting is
    missing or the type is not allowed on this chain."""
    simulated = evidence is EvidenceType.SIMULATED
    if simulated and not (insecure_accept_simulated and platform_file):
        raise ConfigurationError("evidence", "simulated needs insecure_accept_simulated = true and a platform_file")
    if simulated and chain_id not in TEST_CHAIN_IDS:
        raise ConfigurationError("evidence", f"simulated on chain {chain_id}, which is no test chain")
    if not simulated and endorsements is None:
        raise ConfigurationError("evidence", f"{evidence.value} needs a folder of endorsements")
    return evidence


def open_quoter(
    evidence: EvidenceType, platform_file: Path | None, endorsements: Path | None, simulator: Callable[[Path], Quoter]
) -> Quoter:
    """Returns the quoter of this process. Raises `ConfigurationError` if this machine gives another type of evidence.

    Call this function with settings that `verify_attestation` accepted. With hardware evidence, the simulator cannot be loaded
    for the rest of the process. With simulated evidence, `simulator` is called with `platform_file`. Only that function imports
    the simulator, because production must not load it (fence 3, research/kms.md 6).
    """
    if evidence is not EvidenceType.SIMULATED:
        assert endorsements is not None
        enter_production()
        hardware = ConfigfsQuoter(endorsements)
        if hardware.type is not evidence:
            hardware.close()
            raise ConfigurationError("evidence", f"this machine attests by {hardware.type.value}, not {evidence.value}")
        atexit.register(hardware.close)
        return hardware
    assert platform_file is not None
    return simulator(platform_file)
