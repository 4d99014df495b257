"""A test that stops running must fail a whole run (`tests/skips.py`)."""

from pathlib import Path

import pytest

from tests import skips
from tests.skips import differences, expected_skips

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
