"""Measures the start time of the command line: the processor time of every help page and of `version`.

`python -m bench.cli` writes `bench/results/cli.json`.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

from bench.machine import describe
from cli.tree import TREE, Noun, verbs

RESULTS = Path("bench/results/cli.json")
RUNS = 3
"""Runs of each command. The median of their times is the result."""
LIMIT_S = 0.5
"""Most processor time of a command, in seconds."""


def commands() -> list[list[str]]:
    """Returns the arguments of all measured commands: versions, and the help page of the program, of each noun and of each
    verb."""
    nouns = [name for name, entry in TREE.entries.items() if isinstance(entry, Noun)]
    pages = [*([noun, "--help"] for noun in nouns), *([*words, "--help"] for words, _ in verbs())]
    return [["--help"], ["--version"], ["version"], *pages]


def processor_s(arguments: list[str]) -> float:
    """Returns the processor time of one run in seconds, system time included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {"PATH": os.environ["PATH"], "TERM": "dumb"}
    subprocess.run([sys.executable, "-m", "cli", *arguments], check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> int:
    """Measures all commands in turns, writes the results and prints them. Returns 1 if a command takes longer than `LIMIT_S`."""
    taken: dict[str, list[float]] = {" ".join(each): [] for each in commands()}
    for _ in range(RUNS):
        for each in commands():
            taken[" ".join(each)].append(processor_s(each))
    medians = {name: round(statistics.median(times), 3) for name, times in taken.items()}
    result = {"machine": describe(), "runs": RUNS, "limit_s": LIMIT_S, "processor_s": medians}
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    for name, seconds in medians.items():
        print(f"bytewise {name:30} {seconds:.3f} s")
    return int(max(medians.values()) > LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
