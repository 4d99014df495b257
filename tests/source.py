"""The first-party source files as the architecture tests see them: paths, syntax trees, walks."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PUBLISHED_VECTORS = ROOT / "tests" / "vectors" / "published"
"""Vectors that others published; the README there names their sources."""
PACKAGES = (
    "bytewise", "bytewise_client", "chain", "serving", "verifier", "committee", "kms", "enclave", "dashboard", "cli",
    "gossip", "adversaries",
)  # fmt: skip
"""Root folders that are Python packages of ours."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_files(*folders: str) -> list[Path]:
    """Python files under these folders of the repository, without the Foundry project."""
    contracts = ROOT / "chain" / "contracts"
    found = (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))
    return [path for path in found if contracts not in path.parents]


def product_files() -> list[Path]:
    """Python files of the actors and of what they share."""
    return python_files(*PACKAGES)


def files_of_tests() -> list[Path]:
    """Python files of the tests."""
    return python_files("tests")


def name_of(path: Path) -> str:
    """Path of a file from the repository root, as text."""
    return path.relative_to(ROOT).as_posix()


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """Syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def functions(path: Path) -> Iterator[Function]:
    """Every function and method of a file."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """Every call of a file with the dotted text of what is called."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def where(path: Path, node: ast.stmt | ast.expr | ast.excepthandler) -> str:
    """File and line, for messages."""
    return f"{name_of(path)}:{node.lineno}"


def public_definitions(path: Path) -> Iterator[ast.ClassDef | Function]:
    """Public classes and functions of a module, and public methods of its public classes."""
    for node in tree_of(path).body:
        if isinstance(node, ast.ClassDef | Function) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from (m for m in node.body if isinstance(m, Function) and not m.name.startswith("_"))
