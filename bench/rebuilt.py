"""Compares the processor time of a release in rebuilt epochs, which send shares, with epochs that send partials.

`make bench-kms` writes `bench/results/rebuilt.json`. It measures one shard's answer, and the opening of an envelope with the
answers of t shards, where t is the threshold. Both modes take turns in one run on the same key, shares and transport key. Only
processor time counts. Sealing an envelope and checking its proof are not measured, because this work is equal in both modes.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from Crypto.PublicKey.ECC import EccPoint
from rich.console import Console
from rich.table import Table

from bench.machine import describe
from bytewise.crypto import hpke, reconstruction
from bytewise.crypto.curve import GENERATOR, encode_scalar, random_scalar
from bytewise.crypto.reconstruction import TransportKey
from bytewise.crypto.shares import combine, prove_partial, split, verify_partial
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.keys.epochs import Partial
from bytewise.protocol.units import Blob, Digest

RESULTS = Path("bench/results/rebuilt.json")
SIZES = ((3, 5), (5, 9))
INFO, RECEIPT = (Digest(bytes([n]) * 32) for n in (1, 2))
MODES = ("partials", "rebuilt")


class Release:
    """Ephemeral point of an envelope, the shares that open it, and the enclave's key. The benchmark plays every party."""

    def __init__(self, threshold: int, count: int) -> None:
        shares, _ = split(random_scalar(os.urandom), threshold, count, os.urandom)
        self.shares = dict(list(shares.items())[:threshold])
        self.keys = {index: GENERATOR * share for index, share in self.shares.items()}
        self.base = GENERATOR * random_scalar(os.urandom)
        self.to = TransportKey(*hpke.transport_keypair(os.urandom))

    def answer(self, mode: str, index: int) -> Blob:
        """Returns the answer of one shard, sealed to the enclave."""
        if mode == "rebuilt":
            return hpke.seal_to_transport(self.to.public, INFO, encode_scalar(self.shares[index]))
        partial = prove_partial(index, self.shares[index], self.base, RECEIPT, os.urandom)
        return hpke.seal_to_transport(self.to.public, INFO, encode(partial))

    def point(self, mode: str, answers: dict[int, Blob]) -> EccPoint:
        """Returns the point that opens the envelope, computed from t answers. Each answer is checked."""
        if mode == "rebuilt":
            taken = {i: reconstruction.open_key_share(sealed, self.to, INFO, i, self.keys[i]) for i, sealed in answers.items()}
            return reconstruction.multiply_by_key(self.base, taken)
        opened = {i: decode(Partial, hpke.open_from_transport(self.to.secret, INFO, sealed)) for i, sealed in answers.items()}
        return combine({i: verify_partial(each, i, self.keys[i], self.base, RECEIPT) for i, each in opened.items()})


def measure(threshold: int, count: int, rounds: int) -> dict[str, Any]:
    """Returns the medians of both modes, and the ratios of rebuilding to partials."""
    seconds: dict[str, list[tuple[float, float]]] = {mode: [] for mode in MODES}
    for turn in range(rounds + 1):
        release, points = Release(threshold, count), []
        for mode in MODES:
            answers = {index: release.answer(mode, index) for index in release.shares}
            answering, _ = _timed(lambda mode=mode, release=release: release.answer(mode, 1))  # type: ignore[misc]
            opening, point = _timed(lambda mode=mode, release=release, answers=answers: release.point(mode, answers))  # type: ignore[misc]
            points.append(point)
            if turn:  # the first turn fills tables and caches
                seconds[mode].append((answering, opening))
        if points[0] != points[1]:
            raise AssertionError("the two modes open different envelopes")
    found: dict[str, Any] = {"threshold": threshold, "shards": count}
    for mode, taken in seconds.items():
        middle = (statistics.median(each) for each in zip(*taken, strict=True))
        found[mode] = {f"{step}_ms": round(1e3 * value, 3) for step, value in zip(("answer", "open"), middle, strict=True)}
    found["ratio"] = {name: round(found["rebuilt"][name] / value, 3) for name, value in found["partials"].items()}
    return found


def main() -> None:
    """Measures, prints the table and writes the figures."""
    parser = argparse.ArgumentParser(prog="bench.rebuilt", description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    machine = describe()
    rows = [measure(*size, options.rounds) for size in SIZES]
    options.out.write_text(json.dumps({"machine": machine, "rounds": options.rounds, "rows": rows}, indent=1) + "\n")
    table = Table(title="rebuilt / partials: milliseconds of one processor, medians")
    for heading in ("t of n", *rows[0]["ratio"]):
        table.add_column(heading, justify="right")
    for row in rows:
        cells = (f"{row['rebuilt'][name]:g} / {plain:g} = {row['ratio'][name]:.2f}" for name, plain in row["partials"].items())
        table.add_row(f"{row['threshold']} of {row['shards']}", *cells)
    Console(width=150).print(table)


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.thread_time()
    result = work()
    return time.thread_time() - start, result


if __name__ == "__main__":
    main()
