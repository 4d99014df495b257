"""Whole head rows of a path, logits bytes included; and a process that prints digests of them under other settings."""

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bytewise.inference.artifact import artifact
from bytewise.inference.backend_selection import AnyPath, open_path
from bytewise.inference.determinism import fixed
from bytewise.inference.engine import ExactEngine
from bytewise.inference.engine_paths import HeadRow
from bytewise.inference.known_answers.operations import integers
from tests.vectors import make_exact1

LENGTH = 1031
"""Odd, and past 97, 128, 256 and 1,024."""

SHORT = 263
"""The same, but for the last: what laws of the torch path take, which is slower."""


def text(name: str, length: int = LENGTH) -> list[int]:
    """Tokens from a counter-mode hash."""
    return [abs(n) for n in integers(f"text-{name}", length, 255)]


def whole(rows: Sequence[HeadRow]) -> list[bytes]:
    """Everything that a path says of each position, as bytes."""
    return [
        row.row + row.exponent.to_bytes(2) + (b"" if row.logits is None else row.logits.contiguous().numpy().tobytes())
        for row in rows
    ]


def forced(path: AnyPath, tokens: Sequence[int], chunk: int = LENGTH) -> list[bytes]:
    """Every position of one sequence, teacher-forced alone."""
    return whole(path.teacher_force(path.cache(1, len(tokens)), [tokens], [0], chunk)[0])


def digest(rows: Sequence[bytes]) -> str:
    """One hash of all positions."""
    return hashlib.sha256(b"".join(rows)).hexdigest()


def main() -> None:
    """`VECTORS MODEL...`: prints what this process makes of the golden answers, and a digest of each model on the torch path."""
    vectors, *models = map(Path, sys.argv[1:])
    engine = ExactEngine(make_exact1.small_model(vectors), path="torch")
    found: dict[str, Any] = {"backend": engine.backend, "answers": make_exact1.answers(engine), "digests": {}}
    for folder in models:
        with fixed(1):
            path = open_path(artifact.load(folder), 1, "torch")
            found["digests"][folder.parent.name] = digest(forced(path, text(folder.parent.name, SHORT), 256))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
