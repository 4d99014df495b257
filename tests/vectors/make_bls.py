"""Writes bls.json, what the reference library says of BLS12-381: `python -m tests.vectors.make_bls`. `Bls.t.sol` checks it."""

import json
import sys
from itertools import count, islice
from pathlib import Path
from typing import Any

from py_ecc.bls.ciphersuites import G2ProofOfPossession as Suite
from py_ecc.optimized_bls12_381.optimized_curve import curve_order, field_modulus

from bytewise.crypto.bls import BlsSigner, aggregate, committee_key, hash_to_curve
from bytewise.protocol.digests import Label, labelled
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import Address, Digest, hex0x

FILE = Path(__file__).parent / "bls.json"
DOMAIN = Domain(31337, Address("0x" + "b1" * 20))
ACCOUNT = Address("0x" + "ac" * 20)
SEATS = (1, 3, 2)


def word(*parts: object) -> Digest:
    """A reproducible arbitrary digest."""
    return labelled(Label.KEY_DERIVATION, b"bls vectors", *(str(part).encode() for part in parts))


def signer(number: int) -> BlsSigner:
    """A reproducible key."""
    return BlsSigner((1 + int.from_bytes(word("key", number)) % (curve_order - 1)).to_bytes(32))


def hashes() -> dict[str, Any]:
    """Messages and tags with their points."""
    messages = [Digest(bytes(32)), Digest(b"\xff" * 32), word("message")]
    cases = [(message, tag) for message in messages for tag in (Suite.DST, Suite.POP_TAG)]
    cases += [(word("message"), b""), (word("message"), b"T" * 255)]
    return {
        "message": [hex0x(message) for message, _ in cases],
        "tag": [tag.decode() for _, tag in cases],
        "point": [hex0x(hash_to_curve(message, tag)) for message, tag in cases],
    }


def signatures() -> dict[str, Any]:
    """One aggregate over members with several seats."""
    members = [signer(i) for i in range(len(SEATS))]
    message = word("finding")
    parts = zip([member.sign(message) for member in members], SEATS, strict=True)
    keys = [member.public_key for member in members]
    return {
        "message": hex0x(message),
        "members": [hex0x(key) for key in keys],
        "seats": [str(seats) for seats in SEATS],
        "key": hex0x(committee_key(zip(keys, SEATS, strict=True))),
        "signature": hex0x(aggregate(parts)),
    }


def possession() -> dict[str, Any]:
    """One registration."""
    key = signer(9)
    return {
        "chainId": str(DOMAIN.chain_id),
        "contract": DOMAIN.contract,
        "account": ACCOUNT,
        "key": hex0x(key.public_key),
        "proof": hex0x(key.prove_possession(DOMAIN, ACCOUNT)),
    }


def strays() -> list[str]:
    """Points of y^2 = x^3 + 4 with small x. The cofactor is about 2^125: none of them is in the subgroup."""
    roots = ((x, pow(x**3 + 4, (field_modulus + 1) // 4, field_modulus)) for x in count(1))
    points = ((x, y) for x, y in roots if (y * y - x**3 - 4) % field_modulus == 0)
    return [hex0x(x.to_bytes(64) + y.to_bytes(64)) for x, y in islice(points, 4)]


def text() -> str:
    """What the file must hold."""
    content = {"hashes": hashes(), "aggregate": signatures(), "possession": possession(), "outsideSubgroup": strays()}
    return json.dumps(content, indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
    sys.stdout.write(f"{FILE.name}\n")
