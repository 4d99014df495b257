"""Writes the vectors that Python makes and Solidity checks: `python tests/vectors/make.py` (drift is a failing test).

The files suit forge's `vm.parseJson…Array`: columns of one type, integers as decimal strings, variable-length lists flattened
with an offset and a length per case.
"""

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from bytewise.protocol import digests, merkle
from bytewise.protocol.court import sortition
from bytewise.protocol.court.commitments import Certified, Commit
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import field_types
from bytewise.protocol.records.receipt import EmptyLeaf, Receipt
from bytewise.protocol.records.statements import (
    AuditResult,
    Finding,
    Outcome,
    Possession,
    Release,
    Ticket,
    Vote,
    audit_commitment,
)
from bytewise.protocol.signing import Domain, LocalSigner, camel, struct_hash, type_string, typed_digest
from bytewise.protocol.units import WIDTHS, ZERO_DIGEST, Address, Digest, hex0x
from tests.reference.verdict_rules import RevealedVote, tally

HERE = Path(__file__).parent
TEST_KEY = bytes(range(1, 33))
"""The secp256k1 key 0x0102…20; its signatures are in the vectors."""
DOMAIN = Domain(31337, Address("0x" + "c0" * 20))
RECORDS: tuple[type, ...] = (Receipt, EmptyLeaf, Vote, AuditResult, Release, Ticket, Finding, Possession, Commit, Certified)


def word(*parts: object) -> Digest:
    """A reproducible arbitrary digest."""
    return digests.labelled(Label.KEY_DERIVATION, b"vectors", *(str(part).encode() for part in parts))


def account(*parts: object) -> Address:
    """A reproducible arbitrary address."""
    return Address(hex0x(word("account", *parts)[:20]))


def columns(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Rows of equal keys as one list per key."""
    return {name: [row[name] for row in rows] for name in rows[0]} | {"count": str(len(rows))}


def render(value: Any) -> Any:
    """A value as the files write it."""
    if isinstance(value, bytes):
        return hex0x(value)
    return value if isinstance(value, str | bool) else str(int(value))


# --- EIP-712 ---


def field_value(kind: Any, name: str, case: int) -> Any:
    """Case 0: all zero; 1: all at the maximum; 2 and later: arbitrary, full width."""
    if kind in WIDTHS:
        top = (1 << WIDTHS[kind]) - 1
        return (0, top)[case] if case < 2 else int.from_bytes(word(name, case)) & top
    if kind is Digest:
        return Digest((bytes(32), b"\xff" * 32)[case] if case < 2 else word(name, case))
    return Address(("0x" + "00" * 20, "0x" + "ff" * 20)[case] if case < 2 else account(name, case))


def eip712_file() -> dict[str, Any]:
    """Domain, and for every signed record its struct hash, digest and signature."""
    signer = LocalSigner(TEST_KEY)
    file: dict[str, Any] = {
        "chainId": str(DOMAIN.chain_id),
        "contract": DOMAIN.contract,
        "domainSeparator": hex0x(DOMAIN.separator),
        "signer": signer.address,
        "signerKey": hex0x(TEST_KEY),
    }
    for cls in RECORDS:
        rows = []
        for case in range(5):
            record = cls(**{name: field_value(kind, name, case) for name, kind in field_types(cls).items()})
            digest = typed_digest(DOMAIN, record)
            fields = {camel(f.name): render(getattr(record, f.name)) for f in dataclasses.fields(record)}
            proof = {"structHash": struct_hash(record), "digest": digest, "signature": signer.sign(digest)}
            rows.append(fields | {name: hex0x(value) for name, value in proof.items()})
        file[cls.__name__] = columns(rows) | {"typeString": type_string(cls)}
    return file


# --- Merkle ---


def merkle_cases(leaves: Sequence[Digest]) -> Iterable[tuple[str, Digest, Digest, tuple[Digest, ...]]]:
    """Label, leaf, root and proof: every honest proof of this tree, and ways to fail."""
    root = merkle.batch_root(leaves)
    for index, leaf in enumerate(leaves):
        yield "ok", leaf, root, merkle.batch_proof(leaves, index)
    last = len(leaves) - 1
    proof = merkle.batch_proof(leaves, last)
    yield "leaf of no batch", word("no leaf"), root, proof
    yield "other root", leaves[last], word("no root"), proof
    yield "one sibling too many", leaves[last], root, (*proof, word("extra"))
    if proof:
        yield "one sibling too few", leaves[last], root, proof[:-1]
        yield "first sibling altered", leaves[last], root, (word("altered"), *proof[1:])
    if len(set(proof)) > 1:
        yield "siblings in reverse", leaves[last], root, proof[::-1]


def merkle_file() -> dict[str, Any]:
    """Batch leaves, roots for 1 to 9 of them, proofs that hold and proofs that fail."""
    identifiers = [word("receipt", i) for i in range(9)]
    numbers = [1, 2, 3, 4, 5, 6, 7, 2**53, 2**64 - 1]
    leaves = [merkle.batch_leaf(i, n) for i, n in zip(identifiers, numbers, strict=True)]
    rows: list[dict[str, Any]] = []
    siblings: list[str] = []
    for size in range(1, 10):
        for label, leaf, root, proof in merkle_cases(leaves[:size]):
            case = {"label": label, "ok": label == "ok", "size": size, "leaf": leaf, "root": root}
            place = {"proofOffset": len(siblings), "proofLength": len(proof)}
            rows.append({name: render(value) for name, value in (case | place).items()})
            siblings += [hex0x(sibling) for sibling in proof]
    return {
        "receiptIds": [hex0x(i) for i in identifiers],
        "seqs": [str(n) for n in numbers],
        "leaves": [hex0x(leaf) for leaf in leaves],
        "roots": [hex0x(merkle.batch_root(leaves[:size])) for size in range(1, 10)],
        "siblings": siblings,
        "cases": columns(rows),
    }


# --- sortition ---


def sortition_file() -> dict[str, Any]:
    """Committees for stakes of several shapes, round seeds, out hashes."""
    ether = 10**18
    shapes: list[tuple[int, int, list[int]]] = [
        (15, 1, [32 * ether] * 5),
        (15, 1, [ether, 2 * ether, 3 * ether, 0, 9 * ether]),
        (31, 2, [1, 2**96 - 1, 1]),
        (3, 1, [7]),
        (15, 1, [i * ether + i for i in range(64)]),
        (255, 2, [ether + i for i in range(9)]),
        (3, 65535, [0, 0, 1]),
    ]
    rows: list[dict[str, Any]] = []
    voters: list[Address] = []
    stakes: list[str] = []
    holders: list[Address] = []
    for case, (seats, number, shape) in enumerate(shapes):
        seed, dispute = word("seed", case), word("dispute", case)
        pool = [(account("voter", case, i), stake) for i, stake in enumerate(shape)]
        drawn = sortition.draw_seats(seed, dispute, number, seats, pool)
        row = {"seed": seed, "dispute": dispute, "round": number, "seats": seats}
        row |= {"roundSeed": sortition.round_seed(seed, dispute, number)}
        row |= {"poolOffset": len(voters), "poolLength": len(pool), "holderOffset": len(holders)}
        rows.append({name: render(value) for name, value in row.items()})
        voters += [who for who, _ in pool]
        stakes += [str(stake) for _, stake in pool]
        holders += drawn
    pairs = [(word("tokens", i), word("trace", i)) for i in range(4)] + [(Digest(bytes(32)), Digest(b"\xff" * 32))]
    out = [{"tokensHash": hex0x(a), "traceRoot": hex0x(b), "outHash": hex0x(digests.out_hash(a, b))} for a, b in pairs]
    return {"cases": columns(rows), "voters": voters, "stakes": stakes, "holders": holders, "outHashes": columns(out)}


# --- audits ---

AUDIT_RATE = 100
"""Chance per seat in 1/10,000, and seats are stakes in ether: 5 to 100 seats are drawn one time in twenty to always."""


def audits_file() -> dict[str, Any]:
    """Draws of light audits, what audits commit to, and digests of lists."""
    rows = []
    for case in range(40):
        beacon, receipt, who = word("beacon", case), word("receipt", case), account("auditor", case % 4)
        seats = (5, 20, 50, 100)[case % 4]
        digest = digests.labelled(Label.AUDIT_DRAW, beacon, receipt, who.encode())
        salted = (word("tokens", case), word("trace", case), word("salt", case))
        row = {"beacon": beacon, "receiptId": receipt, "verifier": who, "seats": seats, "digest": digest}
        row |= {"drawn": sortition.audit_is_drawn(beacon, receipt, who, AUDIT_RATE, seats)}
        row |= dict(zip(("tokensHash", "traceRoot", "salt"), salted, strict=True))
        row |= {"commitment": audit_commitment(receipt, who, *salted)}
        rows.append({name: render(value) for name, value in row.items()})
    lists = [word("list").hex().encode() * n + b"]" * n for n in (0, 1, 2, 31, 200)]
    digested = [{"data": hex0x(data), "digest": hex0x(digests.labelled(Label.LIST, data))} for data in lists]
    return {"rate": str(AUDIT_RATE), "cases": columns(rows), "lists": columns(digested)}


# --- tally ---

EQUAL, OTHER, THIRD, TRACE, PROOF = "equal", "other", "third", "trace", "proof"
TALLY_CASES: tuple[tuple[str, int, tuple[tuple[int, object, int], ...]], ...] = (
    ("nobody", 15, ()),
    ("quorum of equals", 15, ((5, EQUAL, 0), (5, EQUAL, 0))),
    ("one seat short", 15, ((9, EQUAL, 0),)),
    ("one other answer", 15, ((6, OTHER, 0), (4, OTHER, 0), (5, EQUAL, 0))),
    ("two other answers", 15, ((5, OTHER, 0), (5, THIRD, 0), (5, EQUAL, 0))),
    ("other trace", 15, ((11, TRACE, 0), (4, EQUAL, 0))),
    ("equal answer, other round digest", 15, ((8, EQUAL, 0), (7, PROOF, 0))),
    ("one defect", 15, ((10, Outcome.INVALID, 4),)),
    ("two defects", 15, ((9, Outcome.INVALID, 4), (6, Outcome.INVALID, 5))),
    ("withheld", 15, ((10, Outcome.UNAVAILABLE, 0), (5, EQUAL, 0))),
    ("withheld from some, wrong for others", 15, ((6, Outcome.UNAVAILABLE, 0), (4, OTHER, 0), (1, THIRD, 0))),
    ("withheld from some, defect for others", 15, ((5, Outcome.UNAVAILABLE, 0), (5, Outcome.INVALID, 1))),
    ("withheld from some, equal for others", 15, ((6, Outcome.UNAVAILABLE, 0), (9, EQUAL, 0))),
    ("no key", 15, ((15, Outcome.NO_KEY, 0),)),
    ("cannot execute", 15, ((14, Outcome.CANNOT_EXECUTE, 1), (1, EQUAL, 0))),
    ("minority of others among absentees", 15, ((6, OTHER, 0),)),
    ("equals one short, rest doubt", 15, ((9, EQUAL, 0), (6, Outcome.NO_KEY, 0))),
    ("larger round", 31, ((21, OTHER, 0), (10, EQUAL, 0))),
    ("larger round, one short", 31, ((20, OTHER, 0), (11, EQUAL, 0))),
    ("smallest round", 3, ((1, EQUAL, 0), (1, EQUAL, 0))),
    ("false tokens beside the true out_hash", 15, ((10, EQUAL, 0), (5, OTHER, 0))),
    ("false tokens beside the true out_hash, one seat short", 15, ((9, EQUAL, 0), (1, PROOF, 0))),
)
"""Label, seats, and (seats, what, code) of each vote; what is an outcome, or EXECUTED with the named result."""
FALSE_TOKENS = "false tokens"
"""How labels begin whose receipt names other tokens than its out_hash hashes."""


def tally_vote(case: int, index: int, seats: int, what: object, code: int) -> RevealedVote:
    """One vote of a case."""
    voter = account("tally", case, index)
    if isinstance(what, Outcome):
        return RevealedVote(voter, seats, what, code, ZERO_DIGEST, ZERO_DIGEST, ZERO_DIGEST)
    tokens = word("tokens", what if what in (OTHER, THIRD) else EQUAL)
    trace, proof = word("trace", what == TRACE), word("round", what == PROOF)
    return RevealedVote(voter, seats, Outcome.EXECUTED, code, tokens, trace, proof)


def tally_file() -> dict[str, Any]:
    """Rounds of votes with their verdicts, under our rule and under the paper's."""
    claim = digests.out_hash(word("tokens", EQUAL), word("trace", False))
    rows: list[dict[str, Any]] = []
    votes: list[dict[str, Any]] = []
    for case, (label, seats, shape) in enumerate(TALLY_CASES):
        cast = [tally_vote(case, i, *vote) for i, vote in enumerate(shape)]
        tokens = word("tokens", OTHER if label.startswith(FALSE_TOKENS) else EQUAL)
        found = tally(seats, 2, 3, cast, tokens, claim)
        row: dict[str, Any] = {"label": label, "seats": seats, "voteOffset": len(votes), "voteLength": len(cast)}
        row |= {"claimedTokensHash": tokens, "verdict": int(found.verdict), "replacement": found.replacement, "code": found.code}
        row |= {"quorum": found.quorum, "paperVerdict": int(tally(seats, 2, 3, cast, tokens, claim, True).verdict)}
        rows.append({name: render(value) for name, value in row.items()})
        for vote in cast:
            fields = {camel(f.name): render(getattr(vote, f.name)) for f in dataclasses.fields(vote)}
            votes.append(fields | {"wins": vote.voter in found.winners})
    file = {"tauNum": "2", "tauDen": "3", "claimedOutHash": hex0x(claim)}
    return file | {"cases": columns(rows), "votes": columns(votes)}


FILES: dict[str, Callable[[], dict[str, Any]]] = {
    "eip712.json": eip712_file,
    "merkle.json": merkle_file,
    "sortition.json": sortition_file,
    "audits.json": audits_file,
    "tally.json": tally_file,
}


def text_of(name: str) -> str:
    """What file `name` must hold."""
    return json.dumps(FILES[name](), indent=1, ensure_ascii=True) + "\n"


if __name__ == "__main__":
    for each in FILES:
        (HERE / each).write_text(text_of(each))
        sys.stdout.write(f"{each}\n")
