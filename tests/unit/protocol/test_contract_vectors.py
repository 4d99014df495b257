"""The committed vectors are what `tests/vectors/make.py` writes, and a third implementation agrees with them."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_utils.crypto import keccak

from bytewise.protocol import merkle
from bytewise.protocol.errors.records import MerkleProofMismatch
from bytewise.protocol.units import Digest, unhex

VECTORS = Path(__file__).parents[2] / "vectors"


def load_make() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("make_vectors", VECTORS / "make.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MAKE = load_make()


def read(name: str) -> Any:
    return json.loads((VECTORS / name).read_text())


@pytest.mark.parametrize("name", sorted(MAKE.FILES))
def test_committed_vectors_are_what_make_writes(name: str) -> None:
    assert (VECTORS / name).read_text() == MAKE.text_of(name)


@pytest.mark.parametrize(
    "record", ["Receipt", "EmptyLeaf", "Vote", "AuditResult", "Release", "Ticket", "Finding", "Possession", "Commit", "Certified"]
)
def test_eth_account_finds_the_same_digest_and_signature(record: str) -> None:
    file = read("eip712.json")
    table = file[record]
    members = [part.split(" ") for part in table["typeString"].split("(")[1][:-1].split(",")]
    types = {record: [{"name": name, "type": kind} for kind, name in members]}
    domain = {"name": "Bytewise", "version": "1", "chainId": int(file["chainId"]), "verifyingContract": file["contract"]}
    for row in range(int(table["count"])):
        message = {name: _typed(kind, table[name][row]) for kind, name in members}
        signable = encode_typed_data(domain, types, message)
        assert keccak(b"\x19" + signable.version + signable.header + signable.body) == unhex(table["digest"][row])
        assert signable.body == unhex(table["structHash"][row])
        signed = Account.sign_message(signable, file["signerKey"])
        assert signed.signature == unhex(table["signature"][row])
        assert Account.recover_message(signable, signature=signed.signature).lower() == file["signer"]


def _typed(kind: str, text: str) -> Any:
    return int(text) if kind.startswith("uint") else text


def test_merkle_cases_verify_as_labelled() -> None:
    file = read("merkle.json")
    cases = file["cases"]
    for row in range(int(cases["count"])):
        start, length = int(cases["proofOffset"][row]), int(cases["proofLength"][row])
        proof = [Digest(unhex(text)) for text in file["siblings"][start : start + length]]
        root, leaf = (Digest(unhex(cases[name][row])) for name in ("root", "leaf"))
        if cases["ok"][row]:
            assert merkle.verify_batch_proof(root, leaf, proof) == leaf
        else:
            with pytest.raises(MerkleProofMismatch):
                merkle.verify_batch_proof(root, leaf, proof)


def test_failing_merkle_cases_are_included() -> None:
    assert len(set(read("merkle.json")["cases"]["label"])) == 7
