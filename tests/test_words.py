"""Names: banned words, long test names, product classes that share a name, private names that tests replace.

`docs/reference/glossary.md` has the terms of this project. `WAITING_WORDS` and `WAITING_CLASSES` name what was not renamed yet.
An entry that is no longer needed fails too, so that both lists only get shorter.
"""

import ast
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.source import files_of_tests, functions, name_of, product_files, tree_of

LONGEST_TEST_NAME = 70

BANNED = frozenset(
    """
    absent afterwards aftercare apart arrears books convening courthouse desk desks docket dockets everybody given grounds
    hands heir heirs held knob knobs lane lanes lexicon office offices parrot performer premises proceedings scribe scribes
    story stranger strangers succession switchboard tenancy tidings told town towns village whoever
    """.split()
)
"""Metaphors, adverbs and participles that are no names, and words of which the glossary names a better one."""

WAITING_WORDS: frozenset[str] = frozenset()
"""Identifiers with a banned word that are still there."""

WAITING_CLASSES: frozenset[str] = frozenset()
"""Names that two classes of the product still share."""


def words_of(identifier: str) -> list[str]:
    """Words of a snake_case or CamelCase name, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)]


def banned_of(identifiers: Iterable[str]) -> set[str]:
    """Identifiers with at least one banned word."""
    return {name for name in identifiers if BANNED.intersection(words_of(name))}


def identifiers(path: Path) -> set[str]:
    """Names of a file's module, of its folders, classes, functions and methods."""
    definitions = (
        node for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return {*Path(name_of(path)).with_suffix("").parts, *(node.name for node in definitions)}


def long_test_names(names: Iterable[str]) -> list[str]:
    """Names of tests that are longer than a reader takes in at once."""
    return sorted(name for name in names if name.startswith("test_") and len(name) > LONGEST_TEST_NAME)


def class_owners(trees: Mapping[str, ast.Module]) -> dict[str, list[str]]:
    """Of each class name the files with a class of this name at module level."""
    owners: dict[str, list[str]] = {}
    for name, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                owners.setdefault(node.name, []).append(name)
    return owners


def shared_classes(trees: Mapping[str, ast.Module]) -> dict[str, list[str]]:
    """Class names that several files define."""
    return {name: files for name, files in class_owners(trees).items() if len(files) > 1}


def private_replacements(tree: ast.Module) -> list[str]:
    """`setattr` calls of a file that replace a name of one underscore, or one that is reached through such a name."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("setattr"))
    found = [".".join(_text(each) for each in node.args[: 1 if isinstance(node.args[0], ast.Constant) else 2]) for node in calls]
    return [name for name in found if re.search(r"\._(?!_)", name)]


def _text(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)


def test_no_test_name_is_longer_than_70_characters() -> None:
    assert long_test_names({node.name for path in files_of_tests() for node in functions(path)}) == []


def test_no_identifier_has_a_banned_word() -> None:
    found = {name: name_of(path) for path in (*product_files(), *files_of_tests()) for name in banned_of(identifiers(path))}
    assert {name: file for name, file in found.items() if name not in WAITING_WORDS} == {}
    assert WAITING_WORDS - found.keys() == set(), "these were renamed: remove them from WAITING_WORDS"


def test_no_two_product_classes_share_a_name() -> None:
    found = shared_classes({name_of(path): tree_of(path) for path in product_files()})
    assert {name: files for name, files in found.items() if name not in WAITING_CLASSES} == {}
    assert WAITING_CLASSES - found.keys() == set(), "these were renamed: remove them from WAITING_CLASSES"


def test_no_test_replaces_a_private_name() -> None:
    """A control that removes a defence does so where the product has a seam for it: a private name may change any day."""
    found = {name_of(path): private_replacements(tree_of(path)) for path in files_of_tests()}
    assert {file: names for file, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "call",
    [
        'monkeypatch.setattr(backup, "_verify", None)',
        'setattr(mode._Mode, "production", True)',
        'old.setattr("kms.backup._names", ())',
        'self.patch.setattr(Participant, "_store", store)',
    ],
)
def test_replaced_private_name_is_found(call: str) -> None:
    assert len(private_replacements(ast.parse(call))) == 1


@pytest.mark.parametrize(
    "call", ['monkeypatch.setattr(Policy, "__post_init__", None)', 'patch.setattr("kms.backup.names", _none)']
)
def test_replaced_public_name_is_accepted(call: str) -> None:
    assert private_replacements(ast.parse(call)) == []


def test_long_test_name_is_found() -> None:
    fits, exceeds = "test_".ljust(70, "x"), "test_".ljust(71, "x")
    assert long_test_names([fits, exceeds, "helper".ljust(99, "x")]) == [exceeds]


@pytest.mark.parametrize(
    "name", ["build_desk", "Desk", "_told", "ToldLink", "RPCOffice", "test_town_is_open", "policy_succession"]
)
def test_banned_word_in_an_identifier_is_found(name: str) -> None:
    assert banned_of([name]) == {name}


@pytest.mark.parametrize("name", ["desktop", "withheld", "townsend", "forgiven", "officer", "BookShelf", "apartment_of"])
def test_longer_word_that_contains_a_banned_word_is_accepted(name: str) -> None:
    assert banned_of([name]) == set()


def test_banned_names_of_a_file_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = tmp_path / "lexicon.py"
    planted.write_text("class Scribe:\n    def told(self) -> None:\n        async def given() -> None: ...\n\n    kept = 1\n")
    monkeypatch.setattr("tests.source.ROOT", tmp_path)
    assert banned_of(identifiers(planted)) == {"lexicon", "Scribe", "told", "given"}


def test_shared_class_name_is_found() -> None:
    text = {
        "kms/one.py": "class Court: ...\nclass Own: ...",
        "cli/other.py": "class Court: ...\ndef own() -> None:\n    class Own: ...",
    }
    assert shared_classes({name: ast.parse(source) for name, source in text.items()}) == {"Court": ["kms/one.py", "cli/other.py"]}
