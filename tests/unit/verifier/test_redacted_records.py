"""Records of shards and enclaves end in log lines, tracebacks and messages of failed assertions: none of them shows a secret."""

import dataclasses
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import enclave
import kms
from bytewise import crypto

COULD_BE_SECRET = re.compile(r"\b(bytes|bytearray|Blob|int|ndarray|EccPoint|Request|Output|Payload|Any|object)\b")
"""Types that a key, a share, a partial or a plaintext can have."""

NO_SECRETS = {
    "kms.storage.keyring.SealedAccount": {"sealed"},
    "kms.ceremony.authority.TrustSettings": {"chain_id"},
    "kms.ceremony.deals.DealerPolynomial": {"commitments", "e", "f"},
    "kms.ceremony.erasure.SharesToErase": {"epoch", "threshold", "version"},
    # What a ceremony's log says is public, and so is what follows from it.
    "kms.ceremony.state.CeremonyResult": {"qualified", "dealt", "commitments"},
    "kms.ceremony.state.CeremonyState": {
        "length", "keys", "repair_key", "kem_keys", "commits", "deals", "polynomials", "bodies", "revealed", "repair_values",
        "partials", "signatures", "consents",
    },
    # Public keys, signatures and counts of checkpoints.
    "bytewise.crypto.checkpoint.JournalKeys": {"ed25519", "ml_dsa_65"},
    "bytewise.crypto.checkpoint.JournalCheckpoint": {"size", "at"},
    "bytewise.crypto.checkpoint.NoteSignature": {"value"},
    "bytewise.crypto.checkpoint.NoteKey": {"raw"},
    "bytewise.crypto.hpke.Psk": {"id"},
    "bytewise.crypto.hybrid.EnvelopeContext": {"key_epoch"},
    "bytewise.crypto.hybrid.Recipients": {"threshold", "keys"},
    "kms.release_log.copies.ReleaseLogCopy": {"epoch"},
    "kms.release_log.entitlement.LogFindings": {"undated"},
    "kms.release_log.entitlement.AuditBlock": {"block", "timestamp", "now"},
    "kms.release_log.entitlement._ChainState": {"clock"},
    "kms.release_log.opening_report.ReportedRelease": {"place"},
    "kms.release_log.opening_report.CopiedLog": {"last_read_at"},
    "kms.release_log.copies.LogReading": {"last_read_at"},
    "bytewise.crypto.bls.BlsCertificate": {"signers"},
    "kms.release_log.opening_report.VersionReport": {"given", "missing_logs"},
    "bytewise.crypto.mlkem.Encapsulated": {"ciphertext"},
    "bytewise.crypto.mlkem._Key": {"vector", "matrix", "digest"},
    "enclave.log_continuity.RecordedRelease": {"chain_id", "key_epoch", "next_index", "record", "signature"},
    "bytewise.crypto.reconstruction.TransportKey": {"public"},
    "kms.shard.share_rotation.ShareStatus": {"version"},
    "kms.shard.share_rotation.SharesInForce": {"number", "version", "commitments"},
    "kms.shard.share_rotation._Contradiction": {"version", "commitments", "number"},
    "kms.storage.sealing.WrappedKey": {"wrapped", "check"},
    "enclave.judge.JobOutcome": {"code", "verify_passes"},
    "enclave.key_rebuilder.RebuilderReady": {"transport_key"},
}  # fmt: skip
"""Members of such types that are public."""


class Shown:
    """Stands for the value of a member."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<shown {self.name}>"


def modules(package: ModuleType) -> Iterator[ModuleType]:
    # Programs are not imported, and settings name files: what is secret in them is read from there.
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not found.name.endswith(("__main__", "settings")):
            yield importlib.import_module(found.name)


def records() -> dict[str, type[Any]]:
    """All dataclasses and named tuples of shards, enclaves and the cryptography that they share."""
    return {
        f"{module.__name__}.{name}": kind
        for package in (kms, enclave, crypto)
        for module in modules(package)
        for name, kind in vars(module).items()
        if inspect.isclass(kind) and kind.__module__ == module.__name__
        if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")
    }


def shown(kind: type[Any]) -> set[str]:
    """Members that the record's representation shows."""
    if dataclasses.is_dataclass(kind):
        made, names = object.__new__(kind), [each.name for each in dataclasses.fields(kind)]
        for name in names:
            object.__setattr__(made, name, Shown(name))
    else:
        names = list(kind._fields)
        made = kind._make(Shown(name) for name in names)
    return {name for name in names if repr(Shown(name)) in repr(made)}


def test_no_record_prints_a_secret() -> None:
    found = records()
    assert {
        "enclave.release_client.ShardAnswer",
        "bytewise.crypto.reconstruction.TransportKey",
        "enclave.cross_check.CrossCheckRequest",
    } <= set(found)
    wrong = {
        f"{where}.{member}"
        for where, kind in found.items()
        for member in shown(kind) - NO_SECRETS.get(where, set())
        if COULD_BE_SECRET.search(str(inspect.get_annotations(kind)[member]))
    }
    assert wrong == set()
