"""What an application imports with `bytewise_client`: no model, no terminal, no web server, no database."""

import json
import subprocess
import sys
from pathlib import Path

from bytewise.service.settings import child_environment
from tests.source import ROOT, python_files

HEAVY = {"torch", "transformers", "tokenizers", "typer", "fastapi", "uvicorn", "starlette", "sqlalchemy", "alembic", "openai"}
"""Libraries that an application need not have in its process."""
OURS = {"bytewise", "bytewise_client", "chain", "verifier"}
"""Packages of ours that the client is made of."""
FIRST_PARTY = {"serving", "committee", "kms", "enclave", "dashboard", "cli", "adversaries"} | OURS

PROGRAM = """
import importlib, json, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(json.dumps(sorted(sys.modules)))
"""


def test_client_imports_no_large_library_and_no_actor_but_the_verifier() -> None:
    names = [_module(path) for path in python_files("bytewise_client")]
    assert "bytewise_client.verification" in names
    command = [sys.executable, "-c", PROGRAM, *names]
    done = subprocess.run(command, cwd=ROOT, env=child_environment(), capture_output=True, text=True, timeout=60, check=True)
    modules = json.loads(done.stdout)
    roots = {each.partition(".")[0] for each in modules}
    assert not HEAVY & roots
    assert roots & FIRST_PARTY == OURS
    assert not [each for each in modules if each.startswith(("bytewise.inference", "bytewise.storage", "bytewise.tee_simulated"))]


def _module(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
