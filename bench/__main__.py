"""Compares the time of generation and verification on this machine, as a table by length of prompt and answer.

It measures our engine only, on any artifact. `make bench-inference` compares it with other engines.
"""

import argparse
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.ours import KINDS, Ours
from bytewise.inference.convert.convert import convert
from bytewise.inference.convert.make import make_model

PROMPTS = (16, 64, 256)
ANSWERS = (16, 64, 128)


def measure(ours: Ours, prompt: list[int], count: int) -> tuple[float, float]:
    """Returns the seconds to generate the answer to a prompt, and the seconds to verify the answer by one pass."""
    start = time.perf_counter()
    ours.generate(prompt, count)
    between = time.perf_counter()
    ours.judge([(prompt, count)], together=True)
    return between - start, time.perf_counter() - between


def main() -> None:
    """Makes a small model or takes an artifact, measures, and prints the table."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--artifact", type=Path, help="artifact folder; without it a small model is made")
    parser.add_argument("--path", choices=KINDS, default="auto", help="default: the engine's own choice")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(options.artifact or _small_model(Path(folder)), options.path, options.threads)
    table = Table(title=f"model {ours.model}, path {ours.name}, {options.threads} thread(s)")
    for heading in ("prompt", "answer", "generate s", "verify s", "ratio", "tokens/s"):
        table.add_column(heading, justify="right")
    measure(ours, _prompt(PROMPTS[0]), ANSWERS[0])  # the first run pays for warm-up
    for prompt in PROMPTS:
        for answer in ANSWERS:
            made, checked = measure(ours, _prompt(prompt), answer)
            row = (f"{made:.3f}", f"{checked:.3f}", f"{made / checked:.1f}", f"{answer / made:.0f}")
            table.add_row(str(prompt), str(answer), *row)
    Console().print(table)


def _small_model(folder: Path) -> Path:
    make_model(folder / "checkpoint", 1)
    convert(folder / "checkpoint", folder / "artifact")
    return folder / "artifact"


def _prompt(length: int) -> list[int]:
    return [32 + i % 90 for i in range(length)]


if __name__ == "__main__":
    main()
