"""Prints a random sample of the product's public docstrings. A reader marks those that are unclear at the first reading.

    python docs/tools/docstring_sample.py --seed 20261126 --count 40

Equal seeds and equal sources give equal samples. The results of the readers are in `docs/evidence/readability.md`.
"""

import argparse
import ast
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("bytewise", "bytewise_client", "chain", "cli", "committee", "dashboard", "enclave", "kms", "serving", "verifier")

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Documented(NamedTuple):
    """A public function, class or method with a docstring. Instances sort by file and line."""

    file: str
    line: int
    name: str
    text: str


def documented() -> list[Documented]:
    """Returns all public functions, classes and methods of the product packages that have a docstring, sorted."""
    files = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if "contracts" not in path.parts)
    return sorted(each for path in files for each in _of_body(path, ast.parse(path.read_text()), ""))


def _of_body(path: Path, owner: ast.Module | ast.ClassDef, prefix: str) -> Iterator[Documented]:
    for node in owner.body:
        if not isinstance(node, Definition) or node.name.startswith("_"):
            continue
        text = ast.get_docstring(node)
        if text is not None:
            yield Documented(str(path.relative_to(ROOT)), node.lineno, prefix + node.name, text)
        if isinstance(node, ast.ClassDef):
            yield from _of_body(path, node, f"{prefix}{node.name}.")


def main() -> None:
    """Prints the sample."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=20261126)
    parser.add_argument("--count", type=int, default=40)
    arguments = parser.parse_args()
    for number, each in enumerate(random.Random(arguments.seed).sample(documented(), arguments.count), start=1):
        print(f"{number:2} {each.file}:{each.line} {each.name}\n{each.text}\n")


if __name__ == "__main__":
    main()
