"""A test that stops running must fail a whole run (`tests/skips.py`)."""

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
