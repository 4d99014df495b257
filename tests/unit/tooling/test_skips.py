"""A test that stops running must fail a whole run (`tests/skips.py`)."""

import ast
from pathlib import Path

import pytest

from tests import skips
from tests.skips import differences, expected_skips
from tests.source import ROOT, files_of_tests, functions, name_of

TEXT = """
# a comment
tests/a.py::test_one
[without BYTEWISE_VECTORS]
tests/b.py::test_two  # why
[without OTHER]
tests/c.py::test_three
"""


def test_conditional_lines_count_only_where_the_variable_is_unset() -> None:
    every = {"tests/a.py::test_one", "tests/b.py::test_two", "tests/c.py::test_three"}
    assert expected_skips(TEXT, frozenset()) == every
    assert expected_skips(TEXT, frozenset({"BYTEWISE_VECTORS"})) == every - {"tests/b.py::test_two"}


def test_a_new_skip_and_a_vanished_skip_are_both_named() -> None:
    assert differences(frozenset({"x"}), frozenset({"y"})) == [
        "skipped, but not in expected_skips.txt: x",
        "in expected_skips.txt, but not skipped: y",
    ]
    assert differences(frozenset({"x"}), frozenset({"x"})) == []


def test_function_or_module_covers_all_its_tests() -> None:
    expected = frozenset({"tests/a.py", "tests/b.py::test_one"})
    assert (
        differences(frozenset({"tests/a.py::test_x", "tests/b.py::test_one[1-y::z]", "tests/b.py::test_one[2]"}), expected) == []
    )
    assert differences(frozenset({"tests/a.py::test_x", "tests/b.py::test_one_more[1]"}), expected) == [
        "skipped, but not in expected_skips.txt: tests/b.py::test_one_more[1]",
        "in expected_skips.txt, but not skipped: tests/b.py::test_one",
    ]


def test_only_a_failed_engine_build_counts_as_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    expected = tmp_path / "tests/expected_skips.txt"
    native = tmp_path / "bytewise/inference/native"
    native.mkdir(parents=True)
    monkeypatch.setattr(skips, "EXPECTED", expected)
    monkeypatch.setenv("CC", "a-compiler -with flags")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "compiler" not in skips.surroundings() and "PATH" in skips.surroundings()
    (native / "_engine.abi3.so").touch()
    assert "compiler" in skips.surroundings()
    (native / "_engine.abi3.so").unlink()
    (tmp_path / "a-compiler").touch(0o755)
    assert "compiler" in skips.surroundings()


def test_list_names_tests_that_exist_and_every_test_of_a_browser() -> None:
    every = expected_skips(skips.EXPECTED.read_text(), frozenset())
    listed = {name.partition("[")[0] for name in every}
    for name in listed:
        file, _, function = name.partition("::")
        assert not function or f"\ndef {function}(" in (ROOT / file).read_text(), f"expected_skips.txt: there is no {name}"
    marks = ("in_chromium", "in_both", "needs_browser", "no chromium")
    of_a_browser = {
        f"{name_of(path)}::{node.name}"
        for path in files_of_tests()
        for node in functions(path)
        if node.name.startswith("test_") and any(mark in ast.unparse(each) for each in node.decorator_list for mark in marks)
    }
    assert of_a_browser <= listed, "a machine without a browser skips these; add them to expected_skips.txt"
