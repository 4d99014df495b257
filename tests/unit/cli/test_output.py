"""How commands tell results: ids are never cut, one JSON value a line, and the first digits of an id are enough."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.exit_codes import Exit
from cli.__main__ import main
from cli.output import OutputFormat, by_prefix, emit, limited, print_checks, print_entries
from tests.fixtures.cli.surfaces import Judged

IDS = [f"0x{digit * 64}" for digit in "abc"]


def printed(width: int, fields: dict[str, object]) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    print_entries([(each, fields) for each in IDS], "receipts", console)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


def test_eighty_columns_hold_every_id_and_rows_wrap_between_fields() -> None:
    lines = printed(80, {"operator": "0x" + "1" * 40, "verdict": "OVERTURNED", "assurance": "simulated", "batch": 12})
    assert [line for line in lines if line in IDS] == IDS and max(map(len, lines)) <= 80
    assert lines[1:3] == [f"  operator 0x{'1' * 40}, verdict OVERTURNED,", "  assurance simulated, batch 12"]


def test_eighty_columns_hold_checks_with_whole_ids_in_their_details() -> None:
    console = Console(file=io.StringIO(), width=80)
    digests = [f"0x{digit * 64}" for digit in "ab"]
    details = [f"exact-1, registered as {digests[0]} and sealed to an epoch; see {digests[1]}", "\x1b[2J no defect"]
    print_checks([("environment", "UNKNOWN", details[0]), ("record", "PASS", details[1]), ("dispute", "", "none")], console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines == [
        "UNKNOWN  environment: exact-1, registered as", f"         {digests[0]} and", "         sealed to an epoch; see",
        f"         {digests[1]}", "PASS     record: \N{REPLACEMENT CHARACTER}[2J no defect", "         dispute: none",
    ]  # fmt: skip


@pytest.mark.parametrize("blank", ["\u2800", "\u3164", "x"])
def test_long_words_of_a_detail_never_begin_a_line_of_the_terminal(blank: str) -> None:
    """Such a character looks like a blank, and a terminal would continue its word without the indent."""
    console = Console(file=io.StringIO(), width=80)
    print_checks([("shown answer", "PASS", f"unchecked: {blank * 90}VERIFIED:{blank}all")], console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert all(cell_len(line) <= 80 for line in lines) and all(line.startswith(" " * 9) for line in lines[1:])


def test_list_of_nothing_says_so() -> None:
    console = Console(file=io.StringIO())
    print_entries([], "receipts", console)
    assert console.file.getvalue() == "no receipts\n"  # type: ignore[attr-defined]


def test_control_characters_of_a_field_are_replaced() -> None:
    assert "\x1b" not in "".join(printed(80, {"description": "\x1b[2J"}))


def test_jsonl_has_one_line_for_each_entry(capsys: pytest.CaptureFixture[str]) -> None:
    emit(OutputFormat.JSONL, [{"a": 1}, {"a": 2}], lambda: None)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [{"a": 1}, {"a": 2}]
    emit(OutputFormat.JSONL, {"a": 1}, lambda: None)
    assert capsys.readouterr().out == '{"a": 1}\n'


def test_limit_of_zero_is_all() -> None:
    assert limited(IDS, 0) == IDS and limited(IDS, 2) == IDS[:2]


def test_first_digits_name_an_id_unless_two_begin_alike() -> None:
    near = ["0x" + "a" * 63 + "b", *IDS]
    assert by_prefix("ID", "0xB", near) == IDS[1] and by_prefix("ID", "0xd", near) is None
    assert by_prefix("ID", IDS[0], near) == IDS[0], "in full"
    with pytest.raises(ConfigurationError, match="begins 2 ids"):
        by_prefix("ID", "0xaa", near)
    for wrong in ("0x", "", "a b", "0xzz", "0x" + "a" * 65):
        with pytest.raises(ConfigurationError, match="is no id"):
            by_prefix("ID", wrong, near)


@pytest.mark.e2e
def test_nouns_are_listed_and_shown_from_the_chain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Judged.begun(tmp_path) as judged:
        where = ["--network", str(tmp_path / "network.json"), "--rpc", judged.court.anvil.url]

        def table_of(*words: str) -> Any:
            capsys.readouterr()
            assert main([*words, *where, "--output", "json"]) == Exit.OK, capsys.readouterr().err
            return json.loads(capsys.readouterr().out)

        dispute = "0x" + judged.case.id.hex()
        assert [each["dispute"] for each in table_of("dispute", "list")] == [dispute]
        assert table_of("dispute", "show", dispute[:12])["dispute"] == dispute
        assert table_of("dispute", "list", "--verdict", "draw") == []
        members = table_of("member", "list", "--dispute", dispute[:8])
        assert {each["voter"] for each in members} == {each.voter for each in judged.case.members}
        assert {each["voter"] for each in table_of("member", "show", members[0]["voter"][:12])} == {members[0]["voter"]}
        verifiers, operators = table_of("verifier", "list"), table_of("operator", "list")
        assert table_of("verifier", "show", verifiers[0]["account"][:12]) == verifiers[0]
        assert table_of("operator", "show", operators[0]["account"])["account"] == operators[0]["account"]
        assert sum(each["receipts"] for each in operators) == 3
        for words in (
            ("dispute", "list"),
            ("member", "list"),
            ("verifier", "list"),
            ("operator", "list"),
            ("dispute", "show", dispute),
        ):
            assert main([*words, *where]) == Exit.OK
            assert "0x" in capsys.readouterr().out
        assert main(["dispute", "show", "0x" + "12" * 32, *where]) == Exit.NOT_FOUND
        assert main(["dispute", "list", "--verdict", "guilty", *where]) == Exit.USAGE
