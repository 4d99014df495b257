"""Runs a whole network on a hybrid key epoch and then on a plain one, and compares their facts and their costs.

Each run is the demo (`bytewise demo --keys`): a ceremony of three shard processes, two operators, five enclaves, three frauds,
and all facts read from the chain at the end. Wall time includes waits for blocks and windows, so the processor time of all
processes together is the better figure.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from bench.machine import describe
from bytewise.protocol.suites import suite_of
from kms.storage.keyring import load_document

ROOT = Path(__file__).parents[1]
RESULTS = Path("bench/results/networks.json")
KINDS = ("hybrid", "plain")
SAMPLE_S = 5.0
"""Seconds between two samples of the load of the machine, other work included."""
COSTS = ("wall_s", "processor_s", "peak_pss_mb", "da_bytes")


def measure(keys: str) -> dict[str, Any]:
    """Runs the demo once with this kind of keys and returns its figures. Raises `CalledProcessError` if not every fact was read
    back."""
    before, load = _processor_s(), []
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "cli", "demo", "--keys", keys, "--report", str(report)]
        process = subprocess.Popen(command, cwd=ROOT)
        while process.poll() is None:
            load.append(os.getloadavg()[0])
            threading.Event().wait(SAMPLE_S)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        told = json.loads(report.read_text())
    site = ROOT / told["folder"]
    record = load_document(site / "epoch.json").record
    return {
        "suite": suite_of(record.epoch),
        "key_epoch": record.epoch,
        "shards": len(record.shards),
        "threshold": record.threshold,
        "receipts": len(told["receipts"]),
        "verdicts": sorted(each["verdict"] for each in told["disputes"]),
        "facts": sorted(told["facts"]),
        "missing": told["missing"],
        "wall_s": told["wall_s"],
        "processor_s": round(_processor_s() - before, 1),
        "peak_pss_mb": told["peak_pss_mb"],
        "load": round(statistics.mean(load), 1),
        "da_bytes": sum(path.stat().st_size for path in (site / "da" / "blobs").iterdir()),
    }


def main() -> None:
    """Runs both networks, prints the ratios of their costs and writes the figures."""
    parser = argparse.ArgumentParser(prog="bench.networks", description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    machine = describe()
    found = {keys: measure(keys) for keys in KINDS}
    ratio = {name: round(found["hybrid"][name] / found["plain"][name], 3) for name in COSTS}
    options.out.write_text(json.dumps({"machine": machine, **found, "ratio": ratio}, indent=1) + "\n")
    for name in COSTS:
        print(f"{name:12} hybrid {found['hybrid'][name]:g} / plain {found['plain'][name]:g} = {ratio[name]:.2f}")


def _processor_s() -> float:
    # Processor time of all child processes that have ended, and of their own children.
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
