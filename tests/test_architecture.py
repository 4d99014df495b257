"""The shape of the source: sizes, names, docstrings, and what may be written where (design section 2).

What may import what is in `tests/test_layers.py`; that the documents say what the code says, in `tests/test_documents.py`.
"""

import ast
import importlib
import importlib.metadata
import itertools
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from bytewise.protocol.digests import Label
from tests.source import (
    PACKAGES,
    ROOT,
    Function,
    calls,
    files_of_tests,
    functions,
    name_of,
    product_files,
    public_definitions,
    python_files,
    tree_of,
    where,
)

MODULE_LINES = 500
FUNCTION_LINES = 40
FOLDER_MODULES = 15

ASYNC_ALLOWED = {
    "serving/api.py",
    "kms/shard/api.py",
    "kms/shard/http_limits.py",
    "bytewise/da/store.py",
    "bytewise/tee/renewal.py",
    "dashboard/web/limits.py",
    "dashboard/web/stream.py",
    "gossip/node.py",
}
"""Where a loop may run: HTTP services inside uvicorn, gossip inside trio; adapters are synchronous, but for a library."""

ENVIRONMENT_ALLOWED = {"bytewise/service/settings.py", "cli/demo/processes.py"}
"""What reads the environment: settings; and the demo, which hands its own on to the processes that it starts."""

HASHES_ALLOWED = {
    "bytewise/protocol/digests.py": "labels every hash of ours",
    "bytewise/protocol/signing.py": "EIP-712 names the type in every hash",
    "bytewise/protocol/merkle.py": "the batch tree is OpenZeppelin's",
    "bytewise/crypto/hpke.py": "RFC 9180 labels its own derivations",
    "bytewise/crypto/mlkem.py": "FIPS 203 gives each use its own function or length",
    "bytewise/crypto/bls.py": "the contracts name keys by the EVM's hash",
    "bytewise/storage/backups/backup_file.py": "plain SHA-256 of files, which any tool can check",
    "chain/client/artifacts.py": "selectors and topics are the EVM's",
    "cli/demo/director.py": "function selectors are the EVM's",
    "dashboard/web/answers.py": "entity tags and cursors, which commit to nothing",
}
"""Who may call a hash function, and how its purpose is named there (design section 4)."""

NETWORK_CALLS = re.compile(
    r"(httpx2\.(Client|get|post|put|patch|delete|head|request|stream)|(\w+\.)?\w*HTTPProvider|requests\.\w+|(\w+\.)?urlopen"
    r"|socket\.create_connection|(openai\.)?OpenAI|subprocess\.(run|check_output|check_call|call))"
)
"""Calls that can wait for ever unless they are told how long."""

BOOK_ASKED_ELSEWHERE = {
    "cli/evidence/capsule.py trust_of": "names a deployment; a capsule is verified without a chain, and proves each code",
    "cli/evidence/fork_pack.py _verify": "a pack is verified without a chain, and its capsules prove each code",
    "cli/demo/containers.py _check_chain": "asks only whether the chain of a finished setup is still there",
    "cli/backup.py _verify_network": "compares two books; a restore must work while no node does",
    "cli/node/folder.py make_node_folder": "copies it; the node's processes and `doctor` check it",
    "cli/node/folder.py make_shard_folder": "checks only that it is one",
    "cli/node/folder.py make_monitor_folder": "the same",
    "cli/node/view.py network": "`NodeView.reader` asks",
    "cli/node/shard.py init": "only whether it is a book: the shard asks when it starts",
    "cli/key/log.py verify": "`log_audit.holders_of` asks, where a node is named",
    "cli/key/log.py show": "the same",
    "cli/node/shard.py backup": "must work while no node does; the book only tells what the own log was signed for",
    "cli/key/ceremony.py _ceremony": "the plan has the contracts, and each shard compares them with those that it asked",
    "kms/__main__.py _erase": "`_reader` asks",
    "kms/__main__.py _serve": "the same",
    "serving/wiring.py _work": "`_open` asks; a lease is one of a chain's id",
}
"""Who reads an address book without asking the chain whether it has that code (`verify_code`), and why it may."""

MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:work|root|tmp|home)/")


def test_no_module_is_over_500_lines() -> None:
    sizes = {name_of(p): len(p.read_text().splitlines()) for p in product_files() + files_of_tests()}
    assert {name: lines for name, lines in sizes.items() if lines > MODULE_LINES} == {}


def test_no_function_is_over_40_lines() -> None:
    sizes = {
        f"{where(path, node)} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in product_files() + files_of_tests()
        for node in functions(path)
    }
    assert {name: lines for name, lines in sizes.items() if lines > FUNCTION_LINES} == {}


def test_no_folder_has_over_15_modules() -> None:
    modules = Counter(name_of(path.parent) for path in product_files() if path.name not in ("__init__.py", "__main__.py"))
    assert {folder: count for folder, count in modules.items() if count > FOLDER_MODULES} == {}


def test_package_files_hold_only_a_docstring() -> None:
    offenders = []
    for path in product_files():
        body = tree_of(path).body
        if path.name == "__init__.py" and not (len(body) == 1 and ast.get_docstring(tree_of(path))):
            offenders.append(name_of(path))
    assert offenders == []


def test_every_folder_with_python_is_a_package_except_under_tests() -> None:
    folders = {path.parent for path in product_files()}
    assert [name_of(folder) for folder in folders if not (folder / "__init__.py").exists()] == []
    assert [name_of(path) for path in files_of_tests() if path.name == "__init__.py"] == []


def test_everything_public_has_a_docstring() -> None:
    modules = [name_of(path) for path in product_files() if not ast.get_docstring(tree_of(path))]
    definitions = [
        f"{where(path, node)} {node.name}"
        for path in product_files()
        for node in public_definitions(path)
        if not ast.get_docstring(node) and not _overrides(node)
    ]
    assert (modules, definitions) == ([], [])


def _overrides(node: ast.ClassDef | Function) -> bool:
    """A method marked `@override` is described by what it overrides; an `@overload` by its implementation."""
    return any(ast.unparse(each).split(".")[-1] in ("override", "overload") for each in node.decorator_list)


def test_every_field_of_a_protocol_record_says_what_it_means() -> None:
    silent = []
    for path in python_files("bytewise/protocol"):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(d) for d in node.decorator_list):
                silent += [f"{where(path, field)} {node.name}" for field in _undocumented_fields(node)]
    assert silent == []


def _undocumented_fields(record: ast.ClassDef) -> list[ast.AnnAssign]:
    after = [*record.body[1:], None]
    return [
        node
        for node, following in zip(record.body, after, strict=True)
        if isinstance(node, ast.AnnAssign)
        and "ClassVar" not in ast.unparse(node.annotation)
        and not (isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant))
    ]


def test_domain_records_are_frozen_and_slotted() -> None:
    for path in python_files("bytewise/protocol"):
        classes = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)]
        marks = [(node, ast.unparse(mark)) for node in classes for mark in node.decorator_list]
        for node, mark in marks:
            assert "dataclass" not in mark or mark == "dataclass(frozen=True, slots=True)", where(path, node)


def test_async_is_written_only_where_a_loop_runs() -> None:
    found = {name_of(p) for p in product_files() for n in ast.walk(tree_of(p)) if isinstance(n, ast.AsyncFunctionDef)}
    assert found - ASYNC_ALLOWED == set()


def test_nothing_that_verifies_returns_a_bool() -> None:
    answers = [
        f"{where(path, node)} {node.name}"
        for path in product_files()
        for node in functions(path)
        if node.name.lstrip("_").startswith("verify") and node.returns and ast.unparse(node.returns) == "bool"
    ]
    assert answers == []


def test_every_reader_of_an_address_book_checks_the_code_on_the_chain() -> None:
    silent = set()
    for path in product_files():
        for node in functions(path):
            called = {ast.unparse(call.func) for call in ast.walk(node) if isinstance(call, ast.Call)}
            if "read_network" in called and "verify_code" not in called:
                silent.add(f"{name_of(path)} {node.name}")
    assert silent == set(BOOK_ASKED_ELSEWHERE)


def test_no_test_module_imports_another() -> None:
    """What tests share is in `tests/fixtures` and `tests/reference`, by name."""
    found = [
        f"{where(path, node)} {node.module}"
        for path in files_of_tests()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom) and re.match(r"tests\.(unit|e2e|test_)|.*\.conftest", node.module or "")
    ]
    assert found == []


def test_the_environment_is_read_in_one_place() -> None:
    found = {name_of(path) for path in product_files() if re.search(r"\bos\.(environ|getenv)\b", path.read_text())}
    assert found - ENVIRONMENT_ALLOWED == set()


def test_every_network_call_and_every_child_process_has_a_timeout() -> None:
    endless = []
    for path in product_files() + files_of_tests():
        for name, call in calls(path):
            keywords = " ".join(ast.unparse(word) for word in call.keywords)
            if NETWORK_CALLS.fullmatch(name) and "timeout" not in keywords:
                endless.append(f"{where(path, call)} {name}")
    assert endless == []


def test_nothing_is_mocked() -> None:
    words = ("Magic" + "Mock", "patch" + "(", "unittest." + "mock")
    found = [f"{name_of(path)}: {word}" for path in files_of_tests() for word in words if word in path.read_text()]
    assert found == []


def test_only_one_place_hashes() -> None:
    """A hash of ours names its purpose; a bare hash call elsewhere would not (style rule 15)."""
    bare = re.compile(r"(hashlib\.\w+|keccak|HKDF|hmac\.(new|digest))")
    found = {name_of(path) for path in product_files() for name, _ in calls(path) if bare.fullmatch(name)}
    assert found - HASHES_ALLOWED.keys() == set()


def test_labels_are_distinct_and_none_begins_another() -> None:
    labels = sorted(label.value for label in Label.__members__.values())
    assert len(labels) == len(set(labels)) == len(Label.__members__)
    assert all(label.startswith("bytewise/v1/") for label in labels)
    assert [a for a, b in itertools.pairwise(labels) if b.startswith(a)] == []


@pytest.mark.parametrize("name", PACKAGES)
def test_package_names_resolve_to_this_repository(name: str) -> None:
    """Strangers own most of these names on the package index (style section 4)."""
    module = importlib.import_module(name)
    assert module.__file__ is not None and ROOT in Path(module.__file__).resolve().parents
    assert set(importlib.metadata.packages_distributions().get(name, [])) <= {"bytewise"}


def test_the_installed_packages_are_the_folders() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {name_of(p.parent).replace("/", ".") for p in product_files() if p.name == "__init__.py"}
    assert listed == sorted(folders)


def test_every_dependency_is_pinned_once() -> None:
    names = [line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().split() if "==" in line]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = project["project"]["dependencies"] + project["project"]["optional-dependencies"]["dev"]
    wanted += project["build-system"]["requires"]
    bare = [re.split(r"[\[=<>~ ]", each)[0].lower() for each in wanted]
    assert len(names) == len(set(names))
    assert [each for each in bare if each not in names and each.replace("-", "_") not in names] == []


def test_every_imported_library_is_declared() -> None:
    """A library that only another library needs may leave with it (style rule 52)."""
    owners = importlib.metadata.packages_distributions()
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    known = {re.split(r"[\[=]", each)[0].lower().replace("_", "-") for each in declared}
    # What only the environment of the gossip process has.
    known |= {line.partition("==")[0].lower() for line in (ROOT / "gossip/requirements.txt").read_text().splitlines()}
    known |= {"ray"}  # an optional dependency; import-linter lets one module import it
    foreign = {name for path in product_files() for name in _imports(path)} - set(sys.stdlib_module_names) - set(PACKAGES)
    undeclared = {name for name in foreign if not {d.lower().replace("_", "-") for d in owners.get(name, [name])} & known}
    assert undeclared == set()


def _imports(path: Path) -> set[str]:
    """Top-level names that a file imports."""
    nodes = list(ast.walk(tree_of(path)))
    plain = {alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {(node.module or "").split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}


def test_no_source_names_a_path_of_a_developers_machine() -> None:
    found = [name_of(p) for p in product_files() + files_of_tests() if MACHINE_PATH.search(p.read_text())]
    assert found == []
