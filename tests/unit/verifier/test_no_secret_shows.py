"""Records of shards and enclaves end in log lines, tracebacks and messages of failed assertions: none of them shows a secret."""

import dataclasses
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import kms
import verifier.enclave

COULD_BE_SECRET = re.compile(r"\b(bytes|bytearray|Blob|int|ndarray|EccPoint|Request|Output|Payload|Any|object)\b")
"""Types that a key, a share, a partial or a plaintext can have."""

NO_SECRETS = {
    "kms.accounts.SealedAccount": {"sealed"},
    "kms.dkg.authority.Trust": {"chain_id"},
    "kms.dkg.dealing.Opening": {"commitments", "e", "f"},
    "kms.dkg.erasures.Wanted": {"epoch", "threshold", "version"},
    # What a ceremony's log says is public, and so is what follows from it.
    "kms.dkg.result.Result": {"qualified", "dealt", "commitments"},
    "kms.dkg.state.Ceremony": {
        "length", "keys", "heir_key", "kem_keys", "commits", "deals", "polynomials", "said", "revealed", "hands", "partials",
        "signatures", "consents",
    },
    "kms.hpke.Psk": {"id"},
    "kms.hybrid.Place": {"key_epoch"},
    "kms.hybrid.Recipients": {"threshold", "keys"},
    "kms.log_copy.LogCopy": {"epoch"},
    "kms.log_rights.Judged": {"undated"},
    "kms.log_rights.Seen": {"block", "timestamp", "now"},
    "kms.log_rights._Then": {"clock"},
    "kms.log_story.Entry": {"place"},
    "kms.log_story.Kept": {"seen_at"},
    "kms.log_story.Reach": {"given", "unread"},
    "kms.mlkem.Encapsulated": {"ciphertext"},
    "kms.mlkem._Key": {"vector", "matrix", "digest"},
    "kms.promises.Promise": {"chain_id", "key_epoch", "next_index", "record", "signature"},
    "kms.rebuilt.TransportKey": {"public"},
    "kms.renewed.Held": {"version"},
    "kms.renewed.SharesInForce": {"number", "version", "commitments"},
    "kms.renewed._Doubt": {"version", "commitments", "number"},
    "kms.sealing.WrappedKey": {"wrapped", "check"},
    "verifier.enclave.judge.Judgement": {"code", "verify_passes"},
    "verifier.enclave.rebuilder.Born": {"transport_key"},
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
    """All dataclasses and named tuples of shards and enclaves."""
    return {
        f"{module.__name__}.{name}": kind
        for package in (kms, verifier.enclave)
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


def test_no_record_shows_a_secret() -> None:
    found = records()
    assert {"kms.pieces.Piece", "kms.rebuilt.TransportKey", "verifier.enclave.second.Doubt"} <= set(found)
    wrong = {
        f"{where}.{member}"
        for where, kind in found.items()
        for member in shown(kind) - NO_SECRETS.get(where, set())
        if COULD_BE_SECRET.search(str(inspect.get_annotations(kind)[member]))
    }
    assert wrong == set()
