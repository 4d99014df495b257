"""Measures the rate of the dashboard's indexer over synthetic events: `python -m bench.index [--events 100000]`.

The events come decoded from a chain in memory, so the figure contains no network and no chain node. It includes making the facts
and writing the database.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from bench.machine import describe
from tests.fixtures.dashboard.indexed import Indexed
from tests.fixtures.dashboard.memory_chain import MemoryChain

RESULTS = Path(__file__).parent / "results" / "index.json"
EVENTS_PER_BLOCK = 1.2
"""Average number of events in a block of `MemoryChain`."""


def measure(events: int) -> dict[str, object]:
    """Indexes about `events` events, almost all in final blocks, and then one fork of 64 blocks. Returns the figures."""
    machine = describe()
    chain = MemoryChain(1)
    chain.extend(int(events / EVENTS_PER_BLOCK))
    with tempfile.TemporaryDirectory() as folder:
        made = Indexed(f"sqlite:///{folder}/index.db", chain)
        began = time.perf_counter()
        made.follow(10**6)
        took = time.perf_counter() - began
        with made.reader.snapshot() as snapshot:
            count = snapshot.count_events()
        chain.fork(64, 65)
        began = time.perf_counter()
        made.follow()
        fork = time.perf_counter() - began
        size = (Path(folder) / "index.db").stat().st_size
    return {
        "events": count, "blocks": len(chain.blocks), "seconds": round(took, 1), "events_per_second": round(count / took),
        "fork_of_64_blocks_s": round(fork, 2), "database_bytes": size, "machine": machine,
    }  # fmt: skip


def main() -> None:
    """Measures, prints and writes the figures."""
    parser = argparse.ArgumentParser(prog="bench.index", description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    found = measure(parser.parse_args().events)
    RESULTS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
