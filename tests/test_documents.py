"""The documents say what the code says: rules, transitions, types, file names, verbs (style rules 13, 27, 53)."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from bench import gas_page
from bench.chain import RESULTS, TARGETS
from bytewise.protocol.court.commitments import Certified, Commit
from bytewise.protocol.decisions.certificates import RoundMessage
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.errors.catalogue import CLASSES
from bytewise.protocol.records.receipt import EmptyLeaf, Receipt
from bytewise.protocol.records.statements import (
    AuditResult,
    Finding,
    GossipIdentity,
    Possession,
    Release,
    Shares,
    Ticket,
    Vote,
)
from bytewise.protocol.signing import type_string
from chain.capsule.schema import BlockWitness
from tests.source import PACKAGES, ROOT, files_of_tests, name_of, product_files

PROTOCOL = (ROOT / "docs" / "reference" / "protocol.md").read_text()
ERRORS = (ROOT / "docs" / "reference" / "errors.md").read_text()
DOCUMENTS = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
RULE = re.compile(r"\bR-[0-9A-F]{2}\b")
ROOTS = (*PACKAGES, "tests", "docs", "bench", "models")
COMPLETE = (
    "README.md",
    "CHANGELOG.md",
    "docs/architecture.md",
    "docs/reference/protocol.md",
    "docs/guide/walkthrough.md",
    "docs/evidence/claims.md",
    "docs/reference/dependencies.md",
    "docs/evidence/bad-inputs.md",
    "docs/evidence/attacks.md",
)


def rule_classes() -> list[type[BytewiseError]]:
    """Every class that has a rule."""
    found = {c for c in CLASSES.values() if c.rule}
    return sorted(found, key=lambda cls: cls.rule)


def test_every_rule_number_has_exactly_one_class() -> None:
    rules = [cls.rule for cls in rule_classes()]
    assert len(set(rules)) == len(rules)
    assert [
        f"| {cls.rule} | `{cls.__name__}` |" for cls in rule_classes() if f"| {cls.rule} | `{cls.__name__}` |" not in ERRORS
    ] == []


def test_generated_pages_say_what_the_program_says() -> None:
    command = [sys.executable, "docs/tools/reference_pages.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_the_gas_table_shows_the_committed_figures() -> None:
    figures, page = json.loads((ROOT / RESULTS).read_text())["gas"], (ROOT / gas_page.PAGE).read_text()
    assert gas_page.placed(page, gas_page.rendered(figures, TARGETS)) == page, "run `make bench-chain`"


def test_every_cited_rule_exists() -> None:
    known = {cls.rule for cls in rule_classes()}
    texts = {name_of(path): path.read_text() for path in [*product_files(), *files_of_tests(), *DOCUMENTS]}
    cited = {(name, rule) for name, text in texts.items() for rule in RULE.findall(text)}
    assert {pair for pair in cited if pair[1] not in known} == set()


@pytest.mark.parametrize(
    "cls",
    [
        Receipt,
        EmptyLeaf,
        Vote,
        AuditResult,
        Ticket,
        Release,
        Shares,
        Finding,
        Possession,
        Commit,
        Certified,
        RoundMessage,
        GossipIdentity,
        BlockWitness,
    ],
)
def test_every_signed_type_is_written_out(cls: type) -> None:
    assert f"    {type_string(cls)}\n" in PROTOCOL


@pytest.mark.parametrize("name", COMPLETE)
def test_every_document_is_there(name: str) -> None:
    assert len((ROOT / name).read_text()) > 500


def test_every_file_that_a_document_names_exists() -> None:
    """Paths in backquotes with a slash and a suffix, from the root."""
    path = re.compile(r"`((?:{})/[\w./-]+\.\w+)`".format("|".join(ROOTS)))
    missing = [
        f"{name_of(document)}: {name}"
        for document in DOCUMENTS
        for name in path.findall(document.read_text())
        if not (ROOT / name).exists()
    ]
    assert missing == []


def unknown_commands(text: str, known: set[str]) -> set[str]:
    """Commands in code of a document (backquotes, or a line with four blanks) that `bytewise` does not have."""
    code = re.findall(r"`bytewise ((?:[a-z][a-z-]* ?)+)", text) + re.findall(
        r"^ {4,}(?:\S*/)?bytewise ((?:[a-z][a-z-]* ?)+)", text, re.MULTILINE
    )
    groups = {name.rpartition(" ")[0] for name in known}
    named = {" ".join(words.split()[:depth]) for words in code for depth in (1, 2, 3)}
    deeper = {name for name in named if " " in name and name.rpartition(" ")[0] not in groups}
    return named - deeper - groups - known


def test_every_command_that_a_document_names_exists() -> None:
    page = (ROOT / "docs" / "reference" / "commands.md").read_text()
    known = set(re.findall(r"^### `bytewise ([a-z -]+)`$", page, re.MULTILINE))
    found = {name_of(document): unknown_commands(document.read_text(), known) for document in DOCUMENTS}
    assert {name: commands for name, commands in found.items() if commands} == {}
    assert unknown_commands("`bytewise chain fly NOW`, `bytewise walk`, `bytewise key log show`", known) == {"chain fly", "walk"}


def unknown_options(text: str, options: dict[str, set[str]]) -> set[str]:
    """Options in code of a document that the command beside them does not have."""
    lines = re.findall(r"`bytewise ([^`]+)`|^ {4,}(?:\S*/)?bytewise (.*)$", text.replace("\\\n", " "), re.MULTILINE)
    found = set()
    for words in ((short or block).partition("#")[0].split() for short, block in lines):
        command = next((name for depth in (3, 2, 1) if (name := " ".join(words[:depth])) in options), None)
        known = options.get(command or "", set(words))
        found |= {
            f"{command} {word}" for word in words if re.fullmatch(r"--[a-z][a-z-]*", word) and word not in known | {"--help"}
        }
    return found


def test_every_option_that_a_document_names_exists() -> None:
    page = (ROOT / "docs" / "reference" / "commands.md").read_text()
    parts = re.findall(r"^### `bytewise ([a-z -]+)`$(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL)
    options = {name: set(re.findall(r"--[a-z][a-z-]*", part)) for name, part in parts}
    found = {name_of(document): unknown_options(document.read_text(), options) for document in DOCUMENTS}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}
    assert unknown_options("    bytewise gate URL --runs 2 --wings 1\n", options) == {"gate --wings"}


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
CHANGE = re.compile(r"^\| ([^|]+) \| (`[^|]+) \|$", re.MULTILINE)


def test_every_change_of_the_architecture_page_names_files_that_exist() -> None:
    rows = CHANGE.findall(ARCHITECTURE.partition("## I want to change X")[2])
    named = {change: re.findall(r"`([\w./-]+/[\w.-]+\.\w+)`", files) for change, files in rows}
    assert len(named) >= 25 and [change for change, files in named.items() if not files] == []
    assert [name for files in named.values() for name in files if not (ROOT / name).is_file()] == []


def test_every_folder_of_the_product_has_a_line_in_the_architecture_page() -> None:
    listed = re.findall(r"^\| `([\w/]+)/` \| \S", ARCHITECTURE, re.MULTILINE)
    folders = {name_of(path.parent) for path in product_files() if path.name == "__init__.py"}
    assert folders - set(listed) - {"bytewise/storage/migrations/versions"} == set()
    assert [name for name in listed if not (ROOT / name).is_dir()] == []


def test_the_glossary_is_alphabetical_and_has_sixty_terms() -> None:
    text = (ROOT / "docs" / "reference" / "glossary.md").read_text()
    terms = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", text, re.MULTILINE)[1:]
    assert len(terms) >= 60 and terms == sorted(terms, key=str.casefold)


RECORDS = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
RECORD = re.compile(r"# ADR-(\d{3}) ([^\n]+)\n\n## Context\n\n.+?\n\n## Decision\n\n.+?\n\n## Consequence\n\n.+", re.DOTALL)


@pytest.mark.parametrize("name, lines", [("README.md", 120), ("CHANGELOG.md", 80)])
def test_a_page_for_new_readers_is_short(name: str, lines: int) -> None:
    assert len((ROOT / name).read_text().splitlines()) < lines


def long_cells(text: str, words: int = 60) -> list[str]:
    """The first words of each table cell that has more words than that."""
    cells = [cell for line in text.splitlines() if line.startswith("|") for cell in re.split(r"(?<!\\)\|", line)]
    return [" ".join(cell.split()[:8]) for cell in cells if len(cell.split()) > words]


def test_a_table_cell_has_one_idea() -> None:
    found = {name_of(document): long_cells(document.read_text()) for document in DOCUMENTS}
    assert {name: cells for name, cells in found.items() if cells} == {}
    assert long_cells(f"| {'word ' * 60}| {'word ' * 61}|\n") == [" ".join(["word"] * 8)]


def test_decision_records_are_at_most_60_and_numbered_in_order() -> None:
    assert len(RECORDS) <= 60
    assert [path.name[:3] for path in RECORDS] == [f"{number:03}" for number in range(1, len(RECORDS) + 1)]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name[:3])
def test_decision_record_has_its_title_its_sections_and_one_page(path: Path) -> None:
    text = path.read_text()
    found = RECORD.fullmatch(text)
    assert found is not None
    number, title = found.groups()
    assert path.name == f"{number}-{re.sub(r'[^a-z0-9]+', '-', title.lower().replace(chr(39), '')).strip('-')}.md"
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequence"]
    assert len(text.split()) <= 350


def test_decision_index_lists_every_record_once_in_order() -> None:
    index = (ROOT / "docs" / "adr" / "README.md").read_text()
    listed = re.findall(r"^- (\d{3}) \[(.+)\]\((.+)\)$", index, re.MULTILINE)
    assert [(number, name) for number, _, name in listed] == [(path.name[:3], path.name) for path in RECORDS]
    assert [f"# ADR-{number} {title}" for number, title, _ in listed] == [path.read_text().split("\n")[0] for path in RECORDS]


CITED = re.compile(r"\bADRs?[ -]?(\d+)|docs/adr/(\d{3})(?!\d*-)")
"""Ways to name a decision record by its number; the one in use is `ADR-NNN`."""


def citing_files() -> list[Path]:
    """Everything that may name a decision record: code, tests, benches, contracts, documents and project files."""
    contracts = ROOT / "chain" / "contracts"
    sources = [path for folder in ("src", "test", "campaign", "proofs", "tools") for path in (contracts / folder).rglob("*.*")]
    others = [*(ROOT / "bench").rglob("*.py"), *(ROOT / "models").rglob("*.*"), *contracts.glob("*.md")]
    project = [ROOT / name for name in ("Makefile", "setup.py", "pyproject.toml", "constraints.txt")]
    readable = [path for path in [*sources, *others] if path.suffix in {".sol", ".py", ".toml", ".md", ".js"}]
    return [*product_files(), *files_of_tests(), *DOCUMENTS, *readable, *project]


def wrong_citations(text: str) -> list[str]:
    """Citations that are not of the form `ADR-NNN`, or of no record."""
    numbers = {path.name[:3] for path in RECORDS}
    return [found[0] for found in CITED.finditer(text) if not found[0].startswith("ADR-") or found[1] not in numbers]


def test_every_citation_of_a_decision_names_a_record() -> None:
    this = Path(__file__).resolve()
    texts = {name_of(path): path.read_text() for path in citing_files() if path.resolve() != this}
    assert {name: wrong for name, text in texts.items() if (wrong := wrong_citations(text))} == {}


def test_citation_of_an_old_form_or_of_no_record_is_found() -> None:
    assert wrong_citations("see ADR-001, docs/adr/README.md and docs/adr/001-a-title.md") == []
    for text in ("ADR 001", "ADR 1", "docs/adr/001", "ADR-999", "ADRs 001"):
        assert len(wrong_citations(text)) == 1, text


def test_every_make_verb_is_listed_by_help() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    for verb in ("demo", "test", "check", "quick", "fmt", "bench", "clean", "help"):
        assert re.search(rf"^  {verb} +\S", done.stdout, re.MULTILINE), verb


def test_every_dependency_has_its_line_and_every_line_its_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = project["project"]["optional-dependencies"].values()
    declared = project["project"]["dependencies"] + [each for group in groups for each in group]
    declared += project["build-system"]["requires"]
    contracts = json.loads((ROOT / "chain" / "contracts" / "package.json").read_text())
    page = json.loads((ROOT / "chain" / "capsule" / "page" / "package.json").read_text())
    packages = [*contracts["devDependencies"], *page["dependencies"], *page["devDependencies"]]
    listed = re.findall(r"^\| `([\w.@/-]+)` \|", (ROOT / "docs" / "reference" / "dependencies.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted([*(re.split(r"[\[=]", each)[0] for each in declared), *packages])


ATTACKS = (ROOT / "docs" / "evidence" / "attacks.md").read_text()
ATTACK = re.compile(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
BAD_INPUTS = (ROOT / "docs" / "evidence" / "bad-inputs.md").read_text()
NAMED_TEST = re.compile(r"`([\w./-]+\.(?:py|sol))::(\w+)`")


def missing_tests(document: str) -> list[str]:
    """Tests that a document names and that are not there."""
    return [
        f"{path}::{name}"
        for path, name in set(NAMED_TEST.findall(document))
        if not (ROOT / path).is_file() or not re.search(rf"^\s*(def|function) {name}\(", (ROOT / path).read_text(), re.MULTILINE)
    ]


@pytest.mark.parametrize("document", [BAD_INPUTS, ATTACKS], ids=["bad inputs", "attacks"])
def test_every_test_that_answers_a_bad_input_exists(document: str) -> None:
    assert len(NAMED_TEST.findall(document)) > 50 and missing_tests(document) == []


def test_citation_of_a_missing_test_is_found() -> None:
    assert missing_tests("`tests/test_documents.py::test_citation_of_a_missing_test_is_found`") == []
    for name in ("tests/test_documents.py::test_a_test", "tests/test_nothing.py::test_nothing"):
        assert missing_tests(f"`{name}`") == [name]


def test_each_of_30_attacks_has_a_defence_a_test_and_a_control() -> None:
    rows = ATTACK.findall(ATTACKS)
    assert [int(number) for number, *_ in rows] == list(range(1, 31))
    for number, _, defence, test, control in rows:
        assert re.search(r"`[\w/]+\.(py|md)`", defence) and NAMED_TEST.search(test) and NAMED_TEST.search(control), number


def test_every_bad_input_and_every_attack_names_its_tests() -> None:
    rows = [line for line in BAD_INPUTS.splitlines() if line.startswith("| ") and not line.startswith(("| bad", "| attack"))]
    assert len(rows) > 35 and [row for row in rows if not NAMED_TEST.search(row.rsplit("|", 2)[1])] == []
