"""Checks of `bytewise doctor` that ask this machine and its services: database, key, DA, disk, ports, enclave, model."""

import contextlib
import ctypes
import secrets
import shutil
import socket
import ssl
import struct
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx2

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.evidence.appraisal_policy import TEST_CHAIN_IDS, EvidenceType
from bytewise.protocol.signing import SIGNER_TEST, labelled_preimage, preimage_digest, recover
from bytewise.protocol.units import Digest, hex0x
from bytewise.service.clock import SystemClock
from bytewise.service.installation import SOURCE_ROOT
from bytewise.service.node_files.certificates import verify_server_certificate
from bytewise.service.readiness import Check
from bytewise.storage.backups.backup import LATE, backups_in
from bytewise.storage.nonce_lease import NonceLease
from bytewise.storage.storage_checks import database_health
from bytewise.tee.measurement import ENCLAVE_ENTRY, measure
from bytewise.tee_simulated.td_quote import measurement_of
from chain.reads.records import Status
from cli.node.checks import shard as shard_checks
from cli.node.roles import JUDGES, NodeRole
from cli.node.view import CheckOfNode, NodeView
from kms.settings import ShardSettings
from kms.storage import keyring
from kms.storage.sealing import open_sealer
from serving.settings import OperatorSettings
from verifier.jobs.cluster_client import cluster_check
from verifier.settings import NodeSettings

FREE_BYTES = 5 * 2**30
"""Least free space on the disk of the node's folder, in bytes."""
CLOCK_ERROR_S = 1.0
"""Largest error of a synchronised clock, in seconds."""
EDAC = Path("/sys/devices/system/edac/mc")
"""Folder in which Linux counts errors of memory with ECC."""
CALL_S = 5.0
"""Longest time of one call to a service, in seconds."""
_SIGNS = "a signature of its own account"


def settings(view: NodeView) -> Check:
    """Checks that the settings can be read. If not, all other checks would fail for the same reason."""
    _ = view.settings, view.enclave
    return Check("settings", True, view.config.name, "no unknown, missing or impossible setting", "Correct the named settings.")


def signer(view: NodeView) -> Check:
    """Checks that the account key, here or at a remote signer, signs as its account. A watchtower's key must also give the same
    signature each time."""
    found, name = view.signer.check(), "signer"
    if not found.ok:
        return found
    # The random word is new for each check, so that a recorded signature does not pass.
    test = labelled_preimage(SIGNER_TEST, Digest(secrets.token_bytes(32)))
    first, second = view.signer.sign_preimage(test), view.signer.sign_preimage(test)
    if recover(preimage_digest(test), first) != view.signer.address:
        return Check(name, False, "a signature of another account", _SIGNS, "Name the right key and password file.")
    advice = "A watchtower needs RFC 6979: use a signer with its keys in files, not in a cloud's key service."
    watches = view.role is NodeRole.WATCHTOWER
    told = found.value if first == second else f"{found.value}, another signature each time"
    return Check(name, first == second or not watches, told, _SIGNS, advice)


def database(view: NodeView) -> Check:
    """Checks that the database has this program's revision, and that committed data is on the disk."""
    health = database_health(view.database)
    found = f"{health.kind}, {health.size_bytes / 2**20:.1f} MiB, {'' if health.is_durable else 'not '}durable"
    return Check(
        "database", health.is_durable, found, "the newest revision; commits are on the disk",
        "PostgreSQL: set fsync, full_page_writes and synchronous_commit to on.",
    )  # fmt: skip


def lease(view: NodeView) -> Check:
    """Checks that the account may send transactions. The node stops the account if another process has sent with the same key."""
    lease = NonceLease(view.database, SystemClock(), view.network.chain_id, view.account)
    lease.verify_owner()
    reason = lease.stop_reason()
    return Check(
        "sending", not reason, reason or "allowed", "not stopped",
        "Find out who else sent with this key; then `bytewise member resume`.",
    )  # fmt: skip


def disk(view: NodeView) -> Check:
    """Checks that the disk of the node's folder has enough free space."""
    usage = shutil.disk_usage(view.config.absolute().parent)
    return Check(
        "disk", usage.free >= FREE_BYTES, f"{usage.free / 2**30:.1f} GiB free", f"at least {FREE_BYTES / 2**30:.0f} GiB",
        "Free space, or move the folder: a full disk ends duties.",
    )  # fmt: skip


class KernelClock(NamedTuple):
    """The state of the kernel's clock (adjtimex(2))."""

    is_synchronised: bool
    """True if a time service has set the clock lately."""
    error_s: float
    """Largest possible error of the clock in seconds, as the time service reported it to the kernel."""


_TIMEX_BYTES = 512
"""Size of the buffer for the kernel's `struct timex`, in bytes. It is larger than the struct of any platform."""
_TIME_ERROR, _STA_UNSYNC = 5, 0x40


def kernel_clock() -> KernelClock | None:
    """Reads the state of the kernel's clock, which needs no privilege. Returns None if this system has no such call."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "adjtimex") or struct.calcsize("l") != 8:
        return None
    # The call only reads and sets nothing, because the first field, `modes`, is zero.
    found = ctypes.create_string_buffer(_TIMEX_BYTES)
    state = library.adjtimex(found)
    if state < 0:
        return None
    _, _, _, worst_us, _, status = struct.unpack_from("@I4xllllI", found)
    return KernelClock(state != _TIME_ERROR and not status & _STA_UNSYNC, worst_us / 1e6)


def time_service(view: NodeView) -> Check:
    """Checks that a time service synchronises this machine's clock."""
    return time_service_check(kernel_clock(), view.network.chain_id in TEST_CHAIN_IDS)


def time_service_check(found: KernelClock | None, is_test: bool) -> Check:
    """Returns the result of `time_service` for a state of the kernel's clock. On a test chain no time service is needed."""
    if found is None:
        value, is_met = "this system does not tell", True
    elif found.is_synchronised:
        value, is_met = f"synchronised, to {1000 * found.error_s:.0f} ms", found.error_s <= CLOCK_ERROR_S
    else:
        value, is_met = "not synchronised" + (" (a test chain)" if is_test else ""), is_test
    return Check(
        "time_service", is_met, value, f"synchronised, to {CLOCK_ERROR_S:.0f} s",
        "Start a time service (chrony, systemd-timesyncd): deadlines are counted in seconds.",
    )  # fmt: skip


def memory(view: NodeView) -> Check:
    """Checks that the kernel has counted no uncorrected error of this machine's memory."""
    return memory_check(EDAC)


def memory_check(folder: Path) -> Check:
    """Returns the result of `memory` for a folder with counters of the memory controllers (`ue_count` of EDAC). Without ECC there
    are no counters, and the check passes."""
    counts = []
    for file in sorted(folder.glob("mc*/ue_count")):
        with contextlib.suppress(OSError, ValueError):
            counts.append(int(file.read_text()))
    lost = sum(counts)
    found = f"{lost} uncorrected errors in {len(counts)} controllers" if counts else "no ECC that the kernel reports"
    return Check(
        "memory", not lost, found, "no uncorrected error", "Replace the memory: a wrong bit gives a wrong vote, which is charged."
    )


def backup_age(view: NodeView) -> Check:
    """Checks that the newest backup is young enough for the interval in the settings."""
    settings = view.settings
    asked = settings.backup if isinstance(settings, NodeSettings | OperatorSettings) else None
    assert asked is not None, "asked only where the settings have this section"
    found = backups_in(asked.folder, view.account)
    most_h = LATE * asked.every_h
    age_h = (SystemClock().now() - found[-1][0]) / 3600 if found else float("inf")
    value = f"{age_h:.1f} h" if found else f"no backup in {asked.folder.name}"
    return Check(
        "backup_age", age_h <= most_h, value, f"at most {most_h} h", "The running node makes one; or `bytewise backup make`."
    )


def da(view: NodeView) -> Check:
    """Checks that every DA proxy of the settings answers."""
    assert view.da is not None
    found = []
    for url in view.da.urls:
        place = urlsplit(url).hostname or url
        try:
            status = httpx2.get(f"{url}/health", timeout=CALL_S).status_code
            found.append(f"{place}: {status}")
        except httpx2.HTTPError as error:
            found.append(f"{place}: {type(error).__name__}")
    answer = sum(each.endswith(": 200") for each in found)
    return Check(
        "da", answer == len(found), ", ".join(found), "status 200 of every proxy",
        "Start the proxy, or name another in [da] urls.",
    )  # fmt: skip


def enclave_answers(view: NodeView) -> Check:
    """Checks that the enclave accepts a connection at its job socket."""
    where = view.settings.executor.socket if isinstance(view.settings, NodeSettings) and view.settings.executor else None
    assert where is not None, "roles with an enclave have this section"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(CALL_S)
        try:
            peer.connect(str(where))
            found = "connected"
        except OSError as error:
            found = f"{where.name}: {error.strerror or type(error).__name__}"
    return Check(
        "enclave", found == "connected", found, "a connection",
        "`bytewise run` starts it from section [enclave]; look at its log.",
    )  # fmt: skip


def cluster_answers(view: NodeView) -> Check:
    """Checks that every agent of the Ray cluster runs beside an enclave that answers."""
    executor = view.settings.executor if isinstance(view.settings, NodeSettings) else None
    assert executor is not None and executor.bridge_socket is not None, "asked only for a node with a bridge"
    return cluster_check(executor.bridge_socket)


def measurement_approved(view: NodeView) -> Check:
    """Checks that the network allows the measurement of this machine's enclave, which covers its program and model. On hardware
    the check always passes, because only the hardware can compute the measurement."""
    found = own_measurement(view)
    if found is None:
        return Check(
            "measurement", True, "known on the hardware only", "a measurement that the network allows",
            "`bytewise verifier register` asks the contract before it sends.",
        )  # fmt: skip
    allowed = view.reader.is_allowed(found, view.head)
    return Check(
        "measurement", allowed, f"{hex0x(found)} is {'' if allowed else 'not '}allowed", "one that the network allows",
        "Run the release that the network approved, with its model; or wait until this one is approved.",
    )  # fmt: skip


def own_measurement(view: NodeView) -> Digest | None:
    """Returns the measurement of this machine's enclave. Returns None if only the hardware can compute it, or if the enclave's
    settings are in another file."""
    from bytewise.inference.profiles import model_id_of

    enclave = view.enclave
    if enclave is None or enclave.evidence is not EvidenceType.SIMULATED:
        return None
    return measurement_of(measure(SOURCE_ROOT, ENCLAVE_ENTRY, model_id_of(enclave.artifact)))


def model(view: NodeView) -> Check:
    """Checks that the model's files are complete and unaltered, and that the network lists the model as active."""
    from bytewise.inference.profiles import load_artifact

    model_id = load_artifact(_artifact(view)).model_id
    status = view.reader.item(model_id, view.head).status
    return Check(
        "model", status is Status.ACTIVE, f"{hex0x(model_id)[:18]}… is whole, {status.name} on the chain",
        "all bytes, active on the chain", "`bytewise model check` says which file differs; a curator activates models.",
    )  # fmt: skip


def arithmetic(view: NodeView) -> Check:
    """Checks that this machine passes the known-answer test of the arithmetic profile. A failed test raises an error."""
    from bytewise.inference.exact.matmul import BACKENDS
    from bytewise.inference.known_answers.operations import first_exact, verify_profile

    backend = first_exact(BACKENDS)
    return Check(
        "arithmetic", True, f"{backend.name}: {hex0x(verify_profile(backend))[:18]}…", "the profile's known answers",
        "This processor or library is not exact: run on another machine.",
    )  # fmt: skip


def endorsements(view: NodeView) -> Check:
    """Checks that the enclave's folder of endorsements, for the collateral of hardware quotes, has at least one file."""
    enclave = view.enclave
    folder = None if enclave is None else enclave.endorsements
    files = [] if folder is None or not folder.is_dir() else [path for path in folder.iterdir() if path.is_file()]
    return Check(
        "endorsements", bool(files), f"{len(files)} files in {folder.name if folder else 'no folder'}",
        "collateral of this machine",
        "docs/reference/attestation.md says which files and how to keep them current.",
    )  # fmt: skip


def device(view: NodeView) -> Check:
    """Checks that this machine has an NVIDIA GPU. The check is run only if the enclave's settings name a GPU as device."""
    found = sorted(path.name for path in Path("/dev").glob("nvidia[0-9]*"))
    return Check(
        "device", bool(found), ", ".join(found) or "no GPU", "an NVIDIA device", 'Install its driver, or set device = "cpu".'
    )


def shard_account(view: NodeView) -> Check:
    """Checks that the sealed key of a shard's account can be opened. If the settings name a wrap command, the key is not opened,
    because the command may ask a person."""
    settings = view.settings
    assert isinstance(settings, ShardSettings)
    if settings.sealing.wrap:
        address, how = keyring.address_of(settings.folder), "sealed by wrap_command, not opened"
    else:
        address = keyring.open_account(settings.folder, open_sealer(settings.folder, settings.sealing)).address
        how = "opens under its storage key"
    return Check("account", True, f"{address}, {how}", "an account that opens", "Restore the folder: `bytewise shard restore`.")


def certificate(view: NodeView) -> Check:
    """Checks that the TLS certificate and its key exist and belong together."""
    file, key = _certificate(view)
    verify_server_certificate(file, key)
    return Check("certificate", True, file.name, "a certificate with its key", "Make both again, or restore them.")


def _certificate(view: NodeView) -> tuple[Path, Path]:
    settings = view.settings
    if isinstance(settings, ShardSettings):
        return settings.folder / keyring.TLS_CERTIFICATE, settings.folder / keyring.TLS_KEY
    assert isinstance(settings, OperatorSettings)
    return settings.listen.certificate_file, settings.listen.key_file


def ports(view: NodeView) -> Check:
    """Checks that the node's ports are free, or that the node runs and so may use them itself. For a monitor the check always
    passes, because nothing shows whether a monitor runs."""
    taken = [f"{host}:{port}" for host, port in _listeners(view) if not _can_bind(host, port)]
    is_met = not taken or _is_running(view)
    value = f"{', '.join(taken)} in use" + ("" if is_met else ", and this node does not run") if taken else "free"
    return Check("ports", is_met, value, "free, or used by this node", "End the program that has the port, or name another port.")


def metrics_page(view: NodeView) -> Check:
    """Checks that the program on the port of section `[metrics]` serves a node's page of metrics. The check also passes if
    there is no such section, or if the port is free, as before the start of the node."""
    at, threshold = view.settings.metrics, "a page of metrics while the node runs"
    advice = "End the program that has the port of section [metrics], or name another port; `bytewise run` serves the page."
    if at is None or _can_bind(at.host, at.port):
        found = (
            "no section [metrics]: nobody can watch this node" if at is None else f"not served now, {at.host}:{at.port} is free"
        )
        return Check("metrics", True, found, threshold, advice)
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(at.host, at.host)
    url = f"http://{f'[{host}]' if ':' in host else host}:{at.port}/metrics"
    try:
        answer = httpx2.get(url, timeout=CALL_S, trust_env=False)
        is_page = answer.status_code == HTTPStatus.OK and "\nbytewise_up 1.0\n" in answer.text
        found = (
            f"{sum(map(_is_series, answer.text.splitlines()))} series" if is_page else f"no page of metrics: {answer.status_code}"
        )
    except httpx2.HTTPError as error:
        is_page, found = False, type(error).__name__
    return Check("metrics", is_page, f"{url}: {found}", threshold, advice)


def _is_series(line: str) -> bool:
    return line.startswith("bytewise_")


def webhook_check(url: str) -> Check:
    """Checks that the receiver of alerts accepts a connection, with TLS if its URL is https. No alert is sent, because a test
    alert would call people. Raises `ConfigurationError` if the URL is no http or https address."""
    try:
        parts = urlsplit(url)
        usual = {"http": 80, "https": 443}[parts.scheme]
        port = parts.port or usual
    except (ValueError, KeyError):
        raise ConfigurationError("--webhook", "is no http or https address") from None
    if not parts.hostname:
        raise ConfigurationError("--webhook", "has no host")
    found, is_met = f"{parts.hostname}:{port}", True
    try:
        with socket.create_connection((parts.hostname, port), timeout=CALL_S) as peer:
            if parts.scheme == "https":
                with ssl.create_default_context().wrap_socket(peer, server_hostname=parts.hostname) as channel:
                    found += f", {channel.version()}"
    except OSError as error:
        is_met, found = False, f"{found}: {getattr(error, 'verify_message', '') or error.strerror or type(error).__name__}"
    return Check(
        "webhook", is_met, found, "a connection, with a valid certificate for https",
        "Correct the address in Alertmanager's settings, or start the receiver; `amtool alert add` sends it a test.",
    )  # fmt: skip


def _is_running(view: NodeView) -> bool:
    """Tells whether a process of this node runs: a process answers as this shard, or a process has the nonce lease of the
    account. For a monitor neither can be checked, so True is returned."""
    if view.role is NodeRole.SHARD:
        return shard_checks.process(view).ok
    if view.role is NodeRole.MONITOR:
        return True
    lease = NonceLease(view.database, SystemClock(), view.network.chain_id, view.account)
    return lease.leased_until() > SystemClock().now()


def _listeners(view: NodeView) -> Iterator[tuple[str, int]]:
    settings = view.settings
    if settings.metrics is not None:
        yield settings.metrics.host, settings.metrics.port
    if isinstance(settings, OperatorSettings):
        yield settings.listen.host, settings.listen.port
    elif isinstance(settings, NodeSettings):
        if settings.hint_listener is not None:
            yield settings.hint_listener.host, settings.hint_listener.port
    elif isinstance(settings, ShardSettings):
        yield from ((settings.host, settings.port), (settings.host, settings.channel_port))


def _can_bind(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _artifact(view: NodeView) -> Path:
    if isinstance(view.settings, OperatorSettings):
        return view.settings.model.artifact
    assert view.enclave is not None
    return view.enclave.artifact


def local_checks(view: NodeView) -> tuple[CheckOfNode, ...]:
    """Returns the checks of this machine and its services that apply to a node and need no chain, in the order in which they
    run."""
    role, enclave = view.role, view.enclave
    hardware = enclave is not None and enclave.evidence is not EvidenceType.SIMULATED
    sends = role not in (NodeRole.SHARD, NodeRole.MONITOR)
    serves = role in (NodeRole.SHARD, NodeRole.OPERATOR)
    return (
        *((signer, lease) if sends else ()), *((shard_account,) if role is NodeRole.SHARD else ()),
        *((certificate,) if serves else ()), database, disk, time_service, memory, ports, metrics_page,
        *((backup_age,) if isinstance(view.settings, NodeSettings | OperatorSettings) and view.settings.backup else ()),
        *((da,) if sends else ()), *((enclave_answers,) if role in JUDGES else ()),
        *((cluster_answers,) if _has_bridge(view) else ()),
        *((arithmetic,) if _has_model(view) else ()), *((endorsements,) if hardware else ()),
        *((device,) if enclave is not None and enclave.device != "cpu" else ()),
    )  # fmt: skip


def _has_bridge(view: NodeView) -> bool:
    executor = view.settings.executor if isinstance(view.settings, NodeSettings) else None
    return executor is not None and executor.bridge_socket is not None


def chain_bound_checks(view: NodeView) -> tuple[CheckOfNode, ...]:
    """Returns the checks that apply to a node and compare this machine with the chain."""
    return (*((model,) if _has_model(view) else ()), *((measurement_approved,) if view.enclave is not None else ()))


def _has_model(view: NodeView) -> bool:
    return view.role is NodeRole.OPERATOR or view.enclave is not None
