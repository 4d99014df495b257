"""Measures how many receipts one core checks per second, by the size of their batch. The check opens no envelope.

`make bench-check` writes `bench/results/check.json`. In one run all sizes take turns with the recovery of the same signatures
alone. Only processor time of the one thread counts, so that other work of the machine distorts no figure.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.machine import describe
from bytewise.protocol.encoding import encode
from bytewise.protocol.records.receipt import SignedReceipt, receipt_id
from bytewise.protocol.signing import recover
from tests.fixtures.builders import ANCHOR, World, word
from verifier.watch.batch_check import verify_batch

RESULTS = Path("bench/results/check.json")
SIZES = (16, 64, 188)
"""Receipts of each measured batch. A batch of a quiet hour has 16, most operators set 64, and the parameters allow at most 188
(`ParamLaw`)."""
ROUNDS = 30
TARGET = 3000
"""Receipts that one core must check per second, at every size."""
LOCATOR = "eigenda:standard:0x" + "5a" * 300
"""Locator as long as a real one, which contains a certificate of EigenDA."""
WORLD = World()


def main() -> None:
    """Measures all sizes, prints the figures and writes them."""
    parser = argparse.ArgumentParser(prog="bench.check", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each batch is checked")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    machine = describe()
    found = {"machine": machine, "rounds": options.rounds, "target": TARGET} | measure(options.rounds)
    machine["load_after"] = round(os.getloadavg()[0], 2)
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    show(found)


def measure(rounds: int) -> dict[str, Any]:
    """Returns the processor seconds of each round, and the figures that follow from them."""
    entries = [signed(seq) for seq in range(1, max(SIZES) + 1)]
    works = {str(size): check(entries[:size]) for size in SIZES} | {"recovery": recovery(entries)}
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds + 1):
        for name, work in works.items():
            start = time.thread_time()
            work()
            # The first turn fills caches.
            if turn:
                seconds[name].append(time.thread_time() - start)
    return {"sizes": summary(seconds), "seconds": {name: [round(each, 6) for each in taken] for name, taken in seconds.items()}}


def summary(seconds: dict[str, list[float]]) -> list[dict[str, float]]:
    """Returns for each size the microseconds per receipt, the receipts per second, and the ratios to the smallest batch and to
    bare recovery. Every figure is a median over the rounds."""
    each = {
        name: [second / (max(SIZES) if name == "recovery" else int(name)) for second in taken] for name, taken in seconds.items()
    }

    def ratio(one: str, other: str) -> float:
        return round(statistics.median(a / b for a, b in zip(each[one], each[other], strict=True)), 3)

    return [
        {
            "receipts": size,
            "microseconds_each": round(1e6 * statistics.median(each[str(size)]), 1),
            "receipts_per_second": round(1 / statistics.median(each[str(size)])),
            "over_smallest": ratio(str(size), str(SIZES[0])),
            "over_recovery": ratio(str(size), "recovery"),
        }
        for size in SIZES
    ]


def signed(seq: int) -> SignedReceipt:
    """Returns the receipt with number `seq`, as an operator signs it."""
    return WORLD.sign(replace(WORLD.answered(seq).receipt, envelope_hash=word("envelope", seq)), LOCATOR)


def check(entries: list[SignedReceipt]) -> Callable[[], object]:
    """Returns a function that checks these receipts as one batch, from its bytes to the proofs."""
    header, listed = WORLD.batch(tuple(entries))
    data = encode(listed)
    return lambda: verify_batch(ANCHOR, header, data, WORLD.environment, frozenset({1}))


def recovery(entries: list[SignedReceipt]) -> Callable[[], object]:
    """Returns a function that recovers the account of each signature, which is a part of every check."""
    pairs = [(receipt_id(ANCHOR, each.receipt), each.signature) for each in entries]
    return lambda: [recover(*pair) for pair in pairs]


def show(found: dict[str, Any]) -> None:
    """Prints the figures as a table."""
    table = Table(
        title=f"checking batches, one core: {found['machine']['processor']}, {' '.join(found['machine']['instructions'])}"
    )
    for heading in ("receipts", "µs each", "a second", "over the smallest batch", "over bare recovery"):
        table.add_column(heading, justify="right")
    for row in found["sizes"]:
        table.add_row(*(str(value) for value in row.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
