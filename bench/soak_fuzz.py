"""Coverage-guided fuzzing of every decoder of keys and evidence that reads untrusted bytes: part of `make soak-kms`.

Each target of `tests/fuzz` gets a process of atheris (libFuzzer) and its share of the inputs. A decoder must accept an input and
encode it to the same bytes again, or refuse it by a named error of this project. Each input has a limit of ten seconds of
processor time and 2 GB of memory. Any other exception, a panic of a library, a hang or a crash is a finding. A finding ends its
target, and the input that caused it is kept.
"""

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from bench.machine import describe
from tests.fuzz.targets import TARGETS

RESULTS = Path(__file__).parent / "results" / "fuzz-kms.json"
FINDINGS = Path("build/fuzz-findings")
LIBRARIES = Path("build/fuzz-site")
"""Folder in which `make` installs atheris, outside the project's own environment."""
INPUTS = 10_000_000
SHARES = {
    "channel frames": 300, "strict json": 150, "points and scalars": 200, "channel certificate": 100,
    "sealed messages and keys": 60, "gpu claims": 20, "channel hello": 20, "answers of a shard": 20,
    "job messages": 5, "dcap quote": 10, "collateral": 10,
}  # fmt: skip
"""Weights of targets in the share-out of inputs. Most inputs go to targets where an input costs microseconds. A target that is
not listed has the weight `LEAST`."""
LEAST = 1
HANGS_S, MEMORY_MB, LONGEST_BYTES = 300, 2048, 4096
COUNTS = struct.Struct("<QQQ")
"""Format of the counts, the same as in `bench.fuzz_worker`."""


def fuzzer_version() -> str:
    """Returns the version of the installed atheris."""
    return next(iter(metadata.distributions(name="atheris", path=[str(LIBRARIES)]))).version


class Found(NamedTuple):
    """Result of one target."""

    inputs: int
    taken: int
    seconds: int
    slowest_ms: float
    finding: str
    """Last lines of the output of the process if it failed; empty otherwise."""


def share(name: str, inputs: int) -> int:
    """Returns how many of `inputs` a target gets."""
    weights = {each: SHARES.get(each, LEAST) for each in TARGETS}
    return -(-inputs * weights[name] // sum(weights.values()))


def fuzz(name: str, runs: int, seed: int) -> Found:
    """Runs one target in a process of its own and returns its result."""
    FINDINGS.mkdir(parents=True, exist_ok=True)
    kept = FINDINGS.resolve() / name.replace(" ", "-")
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as said:
        counts = Path(folder) / "counts"
        options = (
            f"-runs={runs}", f"-seed={seed}", f"-max_len={LONGEST_BYTES}", f"-timeout={HANGS_S}", f"-rss_limit_mb={MEMORY_MB}",
            f"-artifact_prefix={kept}-", "-verbosity=0",
        )  # fmt: skip
        started = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "bench.fuzz_worker", name, str(counts), folder, *options],
            env=os.environ | {"PYTHONPATH": str(LIBRARIES)}, stdout=said, stderr=said, check=False,
        )  # fmt: skip
        said.seek(0)
        finding = said.read()[-3000:] if done.returncode else ""
        inputs, taken, slowest = COUNTS.unpack(counts.read_bytes()) if counts.exists() else (0, 0, 0)
    return Found(inputs, taken, round(time.monotonic() - started), round(slowest / 1e6, 1), finding)


def main() -> int:
    """Fuzzes the targets and writes the figures after each. Returns 1 if there was a finding, otherwise 0."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak_fuzz", description=__doc__.split("\n\n")[1])
    parser.add_argument("--inputs", type=int, default=INPUTS, help="how many, over all targets (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of libFuzzer; 0: another one each time (%(default)s)")
    parser.add_argument("--only", choices=TARGETS, action="append", help="this target again, added to the file; may be repeated")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the figures are written (%(default)s)")
    options = parser.parse_args()
    targets: dict[str, Any] = json.loads(options.out.read_text())["targets"] if options.only and options.out.exists() else {}
    for name in options.only or TARGETS:
        found = fuzz(name, share(name, options.inputs), options.seed)
        targets[name] = found._asdict()
        report = {"machine": describe(), "atheris": fuzzer_version(), **totals(targets), "targets": targets}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(report, indent=1) + "\n")
        said = f"{name}: {found.inputs} inputs, {found.taken} taken, {found.seconds} s"
        print(said, found.finding, file=sys.stderr, flush=True)
    print(json.dumps(totals(targets)))
    return 1 if totals(targets)["findings"] else 0


def totals(targets: dict[str, Any]) -> dict[str, int]:
    """Returns the sums over all targets."""
    sums = {what: sum(each[what] for each in targets.values()) for what in ("inputs", "taken", "seconds")}
    return {**sums, "findings": sum(bool(each["finding"]) for each in targets.values())}


if __name__ == "__main__":
    sys.exit(main())
