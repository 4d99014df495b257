"""Compares hybrid with plain key epochs: bytes of an envelope, and the time to seal it, check it, answer as a shard, and open it.

`make bench-kms` writes `bench/results/hybrid.json`. Both suites take turns within one run, call by call. Only processor time
counts, so that other work of the machine distorts neither suite.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from bench.machine import describe
from bytewise.crypto import hpke, hybrid
from bytewise.crypto.curve import GENERATOR, decode_point, encode_point, random_scalar
from bytewise.crypto.envelope import open_with_point, seal_padded, verify_envelope
from bytewise.crypto.hybrid import EnvelopeContext, Recipients
from bytewise.crypto.shares import combine, prove_partial, split, verify_partial
from bytewise.protocol.keys.epochs import HybridPartial, Partial
from bytewise.protocol.records.seal import Envelope, HybridEnvelope
from bytewise.protocol.suites import SUITE_HYBRID, SUITE_P256, hybrid_epoch, suite_of
from bytewise.protocol.units import Digest

RESULTS = Path("bench/results/hybrid.json")
SIZES = ((3, 5), (5, 9))
PAYLOADS = (4096, 65536)
CONTEXT, RECEIPT, KEYS = (Digest(bytes([n]) * 32) for n in (1, 2, 3))
STEPS = ("seal", "check", "answer", "open")
NAMES = {SUITE_P256: "plain", SUITE_HYBRID: "hybrid"}


class Epoch(NamedTuple):
    """One key epoch with all its secrets, because the benchmark plays every party."""

    number: int
    public_key: Any
    shares: dict[int, int]
    seeds: dict[int, bytes]
    to: Recipients | None


def make_epochs(threshold: int, count: int) -> tuple[Epoch, Epoch]:
    """Returns a plain and a hybrid epoch with the same threshold and number of shards."""
    shares, commitments = split(random_scalar(os.urandom), threshold, count, os.urandom)
    seeds = {index: os.urandom(hpke.KEM_SEED_BYTES) for index in shares}
    to = Recipients(threshold, tuple(hpke.kem_key(seed) for seed in seeds.values()))
    public_key = encode_point(commitments[0])
    return Epoch(1, public_key, shares, seeds, None), Epoch(hybrid_epoch(1), public_key, shares, seeds, to)


def exchange(epoch: Epoch, threshold: int, plaintext: bytes) -> tuple[int, dict[str, float]]:
    """Seals, checks, answers and opens one envelope. Returns its bytes and the seconds of each step: "seal" by the sender,
    "check" and "answer" by one shard, "open" by the enclave with t answers."""
    seconds: dict[str, float] = {}
    data = _timed(seconds, "seal", lambda: seal_padded(plaintext, epoch.public_key, CONTEXT, epoch.number, os.urandom, epoch.to))
    envelope = _timed(seconds, "check", lambda: verify_envelope(data, CONTEXT, RECEIPT, suite_of(epoch.number)))
    indices = list(epoch.shares)[:threshold]
    first = _timed(seconds, "answer", lambda: _answer(epoch, envelope, indices[0]))
    answers = {indices[0]: first, **{index: _answer(epoch, envelope, index) for index in indices[1:]}}
    if _timed(seconds, "open", lambda: _open(epoch, envelope, answers)) != plaintext:
        raise AssertionError("the envelope opened to something else")
    return len(data), seconds


def measure(threshold: int, count: int, payload: int, rounds: int) -> dict[str, Any]:
    """Returns the medians of both suites, and the ratios of the hybrid suite to the plain one."""
    epochs, plaintext = make_epochs(threshold, count), bytes(payload)
    sizes: dict[int, int] = {}
    seconds: dict[int, list[dict[str, float]]] = {each.number: [] for each in epochs}
    for turn in range(rounds + 1):
        for epoch in epochs:
            sizes[epoch.number], spent = exchange(epoch, threshold, plaintext)
            if turn:  # the first turn fills tables and caches
                seconds[epoch.number].append(spent)
    found: dict[str, Any] = {"threshold": threshold, "shards": count, "payload_bytes": payload}
    for number, taken in seconds.items():
        middle = {f"{step}_ms": round(1e3 * statistics.median(each[step] for each in taken), 3) for step in STEPS}
        found[NAMES[suite_of(number)]] = {"envelope_bytes": sizes[number], **middle}
    found["ratio"] = {name: round(found["hybrid"][name] / value, 3) for name, value in found["plain"].items()}
    return found


def main() -> None:
    """Measures, prints the table and writes the figures."""
    parser = argparse.ArgumentParser(prog="bench.hybrid", description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    machine = describe()
    rows = [measure(*size, payload, options.rounds) for size in SIZES for payload in PAYLOADS]
    options.out.write_text(json.dumps({"machine": machine, "rounds": options.rounds, "rows": rows}, indent=1) + "\n")
    table = Table(title="hybrid / plain: bytes and milliseconds of one processor, medians")
    for heading in ("t of n", "payload", *rows[0]["plain"]):
        table.add_column(heading, justify="right")
    for row in rows:
        cells = (f"{row['hybrid'][name]:g} / {plain:g} = {row['ratio'][name]:.2f}" for name, plain in row["plain"].items())
        table.add_row(f"{row['threshold']} of {row['shards']}", str(row["payload_bytes"]), *cells)
    Console(width=150).print(table)


def _answer(epoch: Epoch, envelope: Envelope, index: int) -> Partial | HybridPartial:
    partial = prove_partial(index, epoch.shares[index], decode_point(envelope.enc), RECEIPT, os.urandom)
    if not isinstance(envelope, HybridEnvelope):
        return partial
    return hybrid.make_partial(partial, envelope, EnvelopeContext(CONTEXT, epoch.number), epoch.seeds[index], KEYS)


def _open(epoch: Epoch, envelope: Envelope, answers: dict[int, Partial | HybridPartial]) -> bytes:
    base, points, shares = decode_point(envelope.enc), {}, {}
    for index, answer in answers.items():
        partial = answer.partial if isinstance(answer, HybridPartial) else answer
        points[index] = verify_partial(partial, index, GENERATOR * epoch.shares[index], base, RECEIPT)
        if isinstance(answer, HybridPartial) and answer.share is not None:
            shares[index] = int.from_bytes(answer.share)
    psk: hpke.Psk | None = hpke.NO_PSK
    if epoch.to is not None and isinstance(envelope, HybridEnvelope):
        psk = hybrid.recover_psk(shares, envelope, epoch.to, EnvelopeContext(CONTEXT, epoch.number))
    if psk is None:
        raise AssertionError("the parts are not what they should be")
    return open_with_point(envelope, combine(points), epoch.public_key, CONTEXT, RECEIPT, psk)


def _timed(seconds: dict[str, float], step: str, work: Callable[[], Any]) -> Any:
    start = time.thread_time()
    result = work()
    seconds[step] = time.thread_time() - start
    return result


if __name__ == "__main__":
    main()
