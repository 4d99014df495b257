"""Hypothesis strategies for every record class of the protocol, from its field types."""

import dataclasses
import enum
import importlib
import types
import typing
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from bytewise.protocol.encoding import field_types
from bytewise.protocol.evidence.appraisal_policy import (
    AppraisalPolicy,
    Coverage,
    EvidenceType,
    GpuUse,
    PlatformKind,
    PlatformRule,
    TcbStatus,
    TrustedMeasurement,
)
from bytewise.protocol.evidence.release_evidence import Grounds
from bytewise.protocol.jobs import EpochRecord, HybridKeys, ShardRecord
from bytewise.protocol.keys.epochs import Refusal, ReleaseAnswer, ReleaseReply
from bytewise.protocol.records.request import MAX_LOGPROBS, REQUEST_VERSION, DecodePolicy, Output, Request, TokenLogprobs
from bytewise.protocol.suites import KEM_KEY_BYTES, hybrid_epoch
from bytewise.protocol.units import MAX_SAFE_INTEGER, U64, U256, WIDTHS, Address, Blob, Decimal, Digest

digests = st.binary(min_size=32, max_size=32).map(Digest)
addresses = st.binary(min_size=20, max_size=20).map(lambda raw: Address("0x" + raw.hex()))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
tokens = st.integers(0, 2**31 - 1)


def canonical(value: Fraction) -> Decimal:
    """Canonical text of a fraction with at most six decimals."""
    text = f"{float(value):.6f}".rstrip("0").rstrip(".")
    return Decimal("0" if text == "-0" else text)


decimals = st.integers(-(10**9), 10**9).map(lambda n: canonical(Fraction(n, 10**6)))


DOCUMENT_MODULES = (
    "records.request",
    "records.receipt",
    "records.environment",
    "evidence.appraisal_policy",
    "evidence.policy_updates",
    "evidence.claims",
    "records.seal",
    "jobs",
    "keys.epochs",
    "records.statements",
)
"""Modules whose records are stored or sent; the others' never leave a process (their wei may exceed 2^53)."""

INTERNAL = {"ChainFacts", "SignedLeaf"}
"""Records of these modules that never leave a process either."""


def document_classes() -> list[type]:
    """Every record of the protocol that has canonical bytes."""
    found = []
    for name in DOCUMENT_MODULES:
        module = importlib.import_module(f"bytewise.protocol.{name}")
        records = [c for c in vars(module).values() if dataclasses.is_dataclass(c) and isinstance(c, type)]
        found += [c for c in records if c.__module__ == module.__name__ and c.__name__ not in INTERNAL]
    return found


def of_type(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a field type; `TypeError` for one that the encoding does not know."""
    if kind in WIDTHS:
        return st.integers(0, 2 ** WIDTHS[kind] - 1)
    simple: dict[Any, st.SearchStrategy[Any]] = {
        Digest: digests, Blob: st.binary(max_size=70).map(Blob), Address: addresses, Decimal: decimals, str: texts,
        int: st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER), bool: st.booleans(), bytes: st.binary(max_size=9),
    }  # fmt: skip
    if kind in simple:
        return simple[kind]
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return st.one_of(*(st.none() if each is type(None) else of_type(each) for each in typing.get_args(kind)))
    if typing.get_origin(kind) is tuple:
        inner = typing.get_args(kind)
        if inner[-1] is Ellipsis:
            return st.lists(of_type(inner[0]), max_size=3).map(tuple)
        return st.tuples(*map(of_type, inner))
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return record(kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return st.sampled_from(list(kind))
    raise TypeError(f"no strategy for {kind}")


def record(cls: type) -> st.SearchStrategy[Any]:
    """Valid records of a class."""
    if cls is Output:
        return outputs()
    if cls is DecodePolicy:
        return decode_policies()
    if cls is EpochRecord:
        return epoch_records()
    if cls is ReleaseReply:
        answers, refusals = (st.builds(cls, **parts) for parts in _replies())
        return answers | refusals
    special = _SPECIAL.get(cls)
    fields = {name: of_type(kind) for name, kind in field_types(cls).items()}
    return st.builds(cls, **(fields | (special() if special else {})))


def _replies() -> Iterator[dict[str, st.SearchStrategy[Any]]]:
    yield {"answer": record(ReleaseAnswer), "refusal": st.none()}
    yield {"answer": st.none(), "refusal": record(Refusal)}


def between(least: int, most: int, decimals: int = 6) -> st.SearchStrategy[Decimal]:
    """Canonical decimals from `least` to `most`."""
    unit = 10**decimals
    return st.integers(least * unit, most * unit).map(lambda n: canonical(Fraction(n, unit)))


def epoch_records() -> st.SearchStrategy[EpochRecord]:
    """Valid key epochs: the number says whether they have hybrid keys, one for each shard."""
    shards = st.lists(record(ShardRecord), min_size=3, max_size=3).map(tuple)
    parts = {"public_key": of_type(Blob), "threshold": st.integers(1, 2), "shards": shards, "assurance": texts}
    numbers = st.integers(0, 2**32 - 1)
    keys = st.lists(st.binary(min_size=KEM_KEY_BYTES, max_size=KEM_KEY_BYTES).map(Blob), min_size=3, max_size=3).map(tuple)
    plain = st.builds(EpochRecord, epoch=numbers.map(U64), hybrid=st.none(), **parts)
    hybrids = st.builds(HybridKeys, digests, keys)
    return plain | st.builds(EpochRecord, epoch=numbers.map(lambda n: U64(hybrid_epoch(n))), hybrid=hybrids, **parts)


def decode_policies() -> st.SearchStrategy[DecodePolicy]:
    """Valid policies; with logprobs the answer is short enough for them."""

    def with_logprobs(policy: DecodePolicy, count: int | None) -> DecodePolicy:
        most = MAX_LOGPROBS // ((count or 0) + 1)
        return (
            policy
            if count is None
            else dataclasses.replace(policy, logprobs=count, max_new_tokens=1 + policy.max_new_tokens % most)
        )

    plain = st.builds(DecodePolicy, **_decode_policy())
    return st.builds(with_logprobs, plain, st.none() | st.integers(0, 20))


def _decode_policy() -> dict[str, st.SearchStrategy[Any]]:
    distinct = st.sets(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8), max_size=3)
    return {
        "max_new_tokens": st.integers(1, 2**20),
        "temperature": st.integers(0, 10**8).map(lambda n: canonical(Fraction(n, 10**6))),
        "top_p": st.integers(1, 10**6).map(lambda n: canonical(Fraction(n, 10**6))),
        "top_k": st.integers(0, 2**20),
        "stop_tokens": st.sets(tokens, max_size=4).map(lambda ids: tuple(sorted(ids))),
        "min_p": between(0, 1),
        "repetition_penalty": between(1, 100),
        "presence_penalty": between(-2, 2),
        "frequency_penalty": between(-2, 2),
        "logit_bias": st.dictionaries(tokens, between(-100, 100), max_size=3).map(lambda given: tuple(sorted(given.items()))),
        "stop_strings": distinct.map(lambda found: tuple(sorted(found))),
        "grammar": st.none() | st.just('{"type":"object"}'),
    }


def _request() -> dict[str, st.SearchStrategy[Any]]:
    return {"version": st.just(REQUEST_VERSION), "prompt": st.lists(tokens, min_size=1, max_size=6).map(tuple)}


def _policy() -> dict[str, st.SearchStrategy[Any]]:
    return {
        "chain_ids": st.just((U256(31337),)),
        "rules": record(PlatformRule).map(lambda one: (one,)),
        "measurements": record(TrustedMeasurement).map(lambda one: (one,)),
        "insecure_accept_simulated": st.just(True),
        "serial": st.integers(0, 9).map(U64),
    }


def _rule() -> dict[str, st.SearchStrategy[Any]]:
    return {
        "type": st.just(EvidenceType.SIMULATED),
        "root": st.binary(min_size=1, max_size=9).map(Blob),
        "statuses": st.sets(st.sampled_from(list(TcbStatus)[:-1]), min_size=1).map(
            lambda chosen: tuple(each for each in TcbStatus if each in chosen)
        ),
        "min_evaluation": st.integers(1, 99),
        "min_tcb": st.just(Blob(b"")),
        "max_age_s": st.integers(1, 600),
        # For some statuses alone (`test_appraisal`).
        "out_of_date_grace_s": st.none(),
    }


def _program() -> dict[str, st.SearchStrategy[Any]]:
    return {
        "platform": st.just(PlatformKind.SIMULATED),
        "covers": st.just((Coverage.PROGRAM,)),
        "statement": texts.filter(bool),
        "gpu": st.sampled_from(GpuUse),
    }


_SPECIAL: dict[type, Callable[[], dict[str, st.SearchStrategy[Any]]]] = {
    Request: _request,
    AppraisalPolicy: _policy,
    PlatformRule: _rule,
    TrustedMeasurement: _program,
    Grounds: lambda: {"refusal": st.from_regex(r"(R-[0-9A-Z]{2,4})?", fullmatch=True)},
}


def outputs() -> st.SearchStrategy[Output]:
    """Valid outputs: the count is the number of tokens."""
    ids = st.lists(tokens, max_size=6).map(tuple)
    reasons = st.sampled_from(["stop", "length", "error"])

    def with_logprobs(output: Output) -> st.SearchStrategy[Output]:
        each = st.builds(TokenLogprobs, decimals, st.lists(st.tuples(tokens, decimals), max_size=2).map(tuple))
        count = len(output.token_ids)
        several = st.lists(each, min_size=count, max_size=count).map(tuple)
        return (st.none() | several).map(lambda found: dataclasses.replace(output, logprobs=found))

    plain = st.builds(lambda h, t, r, p, b: Output(h, t, r, p, len(t), b), digests, ids, reasons, st.integers(0, 99), digests)
    return plain.flatmap(with_logprobs)
