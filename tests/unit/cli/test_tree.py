"""The command tree: help pages teach and import little, wrong input ends with one line and 64, actors are started as programs."""

import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import typer
from typer.testing import CliRunner

import bench.cli
from bytewise.service.exit_codes import Exit
from bytewise.service.settings import child_environment
from cli.__main__ import app, main
from cli.tree import TREE, Noun, Verb, verbs

ROOT = Path(__file__).parents[3]
HEAVY = {
    "web3", "torch", "py_ecc", "sqlalchemy", "transformers", "openai", "eth_account", "numpy", "httpx2", "fastapi", "uvicorn",
}  # fmt: skip
"""Libraries whose import takes longer than a help page may."""
ALL = list(verbs())


def _words(value: object) -> str:
    """A name of a test's case: the words of a noun or verb, which are no named tuple."""
    return " ".join(value) if type(value) is tuple else "it"


def nouns(noun: Noun = TREE, above: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Noun]]:
    """Every noun with its words."""
    below = [((*above, name), entry) for name, entry in noun.entries.items() if isinstance(entry, Noun)]
    return [*below, *(inner for words, entry in below for inner in nouns(entry, words))]


IMPORTED = """
import json, sys
from cli.__main__ import main
seen, found = set(sys.modules), []
for arguments in json.loads(sys.argv[1]):
    code = main(arguments)
    found.append([arguments, code, sorted(set(sys.modules) - seen)])
    seen = set(sys.modules)
print("\\n" + json.dumps(found))
"""


def test_help_and_version_import_no_large_library() -> None:
    """In one process: each help page is asked what it imports beside what those before it did."""
    command = [sys.executable, "-c", IMPORTED, json.dumps(bench.cli.commands())]
    done = subprocess.run(command, cwd=ROOT, env=child_environment(), capture_output=True, text=True, timeout=60, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) == len(bench.cli.commands()) > len(ALL) and {code for _, code, _ in found} == {Exit.OK}
    roots = [(arguments, {name.partition(".")[0] for name in modules}) for arguments, _, modules in found]
    assert [(arguments, names & HEAVY) for arguments, names in roots if names & HEAVY] == []


def test_committed_figures_are_below_the_limit() -> None:
    figures = json.loads((ROOT / bench.cli.RESULTS).read_text())
    assert figures["processor_s"].keys() == {" ".join(each) for each in bench.cli.commands()}
    assert max(figures["processor_s"].values()) < bench.cli.LIMIT_S and figures["machine"]["instructions"]


@pytest.mark.parametrize(("words", "noun"), nouns(), ids=_words)
def test_help_of_a_noun_has_an_example_that_parses(words: tuple[str, ...], noun: Noun) -> None:
    example = noun.help.partition("Example: bytewise ")[2].split()
    assert tuple(example[: len(words)]) == words
    assert any(tuple(example[: len(each)]) == each for each, _ in ALL)


@pytest.mark.parametrize(("words", "verb"), ALL, ids=_words)
def test_verb_is_the_function_that_the_tree_describes(words: tuple[str, ...], verb: Verb) -> None:
    module, _, name = verb.function.partition(":")
    text = inspect.getdoc(getattr(importlib.import_module(module), name)) or ""
    assert " ".join(text.split("\n\n")[0].split()) == verb.help
    shown = CliRunner().invoke(app, [*words, "--help"])
    assert shown.exit_code == 0 and f"bytewise {' '.join(words)}".replace("bytewise ", "") in shown.output


TAKE_NO_FILE = {
    ("demo",), ("version",), ("model", "make"), ("model", "list"), ("network", "list"), ("capsule", "page"), ("monitor", "list"),
}  # fmt: skip


@pytest.mark.parametrize("words", [words for words, _ in ALL], ids=" ".join)
def test_unknown_option_and_missing_file_end_every_verb_with_64(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A settings file, an address book, a folder or a database that is not there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cli.actors.os.execv", lambda *_: pytest.fail("started"))
    assert main([*words, "--nonsense"]) == Exit.USAGE
    assert "--help" in capsys.readouterr().err
    if words in TAKE_NO_FILE:
        return
    assert main([*words, *_arguments(words)]) == Exit.USAGE
    assert "Traceback" not in capsys.readouterr().err


MISSING = {"url": "nonsense", "support": "for", "chain_id": "31337", "epoch": "1", "channel": "x:1", "published": "vectors.json"}


def _arguments(words: tuple[str, ...]) -> list[str]:
    """What a verb needs; every file and folder is missing."""
    module, _, name = next(verb for each, verb in ALL if each == words).function.partition(":")
    function = getattr(importlib.import_module(module), name)
    hints = get_type_hints(function, include_extras=True)
    found = ["--network", "nowhere/network.json"] if "network" in hints else []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is not inspect.Parameter.empty or hints[parameter.name] is typer.Context:
            continue
        kind, about = get_args(hints[parameter.name])
        missing = MISSING.get(parameter.name, "nowhere/file" if kind in (Path, list[Path]) else "0x" + "ab" * 32)
        found += [about.param_decls[0], missing] if about.param_decls else [missing]
    return found + (["--out", "nowhere/network.json"] if words == ("chain", "deploy") else [])


def test_wrong_noun_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipt", "show"]) == Exit.USAGE
    assert "Did you mean 'receipt'?" in capsys.readouterr().err


def test_run_replaces_the_process_by_the_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = tmp_path / "x.toml"
    config.touch()
    ran: list[list[str]] = []
    monkeypatch.setattr("cli.actors.os.execv", lambda _, command: ran.append(command[3:]))
    for noun in ("operator", "verifier", "member", "enclave", "shard", "da"):
        main([noun, "run", "--config", str(config)])
    modules = ["serving", "verifier", "committee", "enclave", "kms", "bytewise.da"]
    assert [each[0] for each in ran] == modules and all(each[-2:] == ["--config", str(config)] for each in ran)


def test_version_as_json_names_the_profile_and_verify_its_algorithm(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "--output", "json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out)["profile"] == "exact-1"
    assert main(["verify", "--help"]) == Exit.OK
    assert "Algorithm 3" in capsys.readouterr().out
