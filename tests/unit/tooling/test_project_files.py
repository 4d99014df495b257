"""What a stranger's tools read: licence, contributors' commands, editor and pre-commit settings."""

import configparser
import hashlib
import re
import tomllib

import pytest

from tests.source import ROOT

APACHE_2 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
"""SHA-256 of the text that the Apache Software Foundation publishes."""


def test_licence_is_the_text_that_the_package_names() -> None:
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == APACHE_2
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == "Apache-2.0"
    assert all((ROOT / name).is_file() for name in project["license-files"])


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md"])
def test_page_names_only_verbs_of_make_and_no_address(name: str) -> None:
    text, makefile = (ROOT / name).read_text(), (ROOT / "Makefile").read_text()
    verbs = set(re.findall(r"(?:`|^    )make ([a-z-]+)", text, re.MULTILINE))
    assert {verb for verb in verbs if not re.search(rf"^{verb}:", makefile, re.MULTILINE)} == set()
    assert not re.search(r"[\w.]+@[\w.]+|https?:", text)


def test_hooks_are_local_programs_of_the_environment() -> None:
    lines = (ROOT / ".pre-commit-config.yaml").read_text().splitlines()
    values = [line.strip().removeprefix("- ").partition(": ")[::2] for line in lines if ": " in line and "#" not in line]
    assert {value for key, value in values if key == "repo"} == {"local"}
    assert {value for key, value in values if key == "language"} == {"system"}
    entries = [value for key, value in values if key == "entry"]
    assert len(entries) == 3 and all(entry.startswith(".venv/bin/") for entry in entries)


def test_editors_use_the_line_length_of_the_linter() -> None:
    parser = configparser.ConfigParser()
    parser.read_string("[top]\n" + (ROOT / ".editorconfig").read_text())
    length = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["line-length"]
    assert parser["*"]["max_line_length"] == str(length)
