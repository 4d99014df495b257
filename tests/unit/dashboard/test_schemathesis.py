"""Schemathesis against the running API: every answer is one that the OpenAPI document promises, whatever is asked."""

import json
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from bytewise.service.settings import child_environment
from dashboard.settings import ApiSettings
from tests.fixtures.dashboard.site import RecordedSite, served

LIMIT_S = 600
EXAMPLES = 20
"""Random cases of each operation and phase."""
STREAM = "/api/v1/events"
"""It never ends. `test_api.py` reads it."""
LEFT_OUT = "positive_data_acceptance"
"""A block or cursor in the right form may still be none of this index: 400 says so."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> object:
    """Where the API is, without a limit of requests."""
    site = RecordedSite(tmp_path_factory.mktemp("site"), ApiSettings(requests_per_minute=1_000_000))
    with served(site.app) as url:
        yield url


def run_schemathesis(address: str, document: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Schemathesis with this document, in a folder for what it writes."""
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", document, "--url", address, "--exclude-path", STREAM,
        "--exclude-checks", LEFT_OUT, "--max-examples", str(EXAMPLES), "--seed", "7", "--no-color",
    ]  # fmt: skip
    return subprocess.run(
        command, cwd=folder, env=child_environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


def test_api_answers_as_its_document_promises(address: str, tmp_path: Path) -> None:
    done = run_schemathesis(address, f"{address}/api/v1/openapi.json", tmp_path)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "Selected: 21/22" in done.stdout


def test_api_that_breaks_its_promise_is_found(address: str, tmp_path: Path) -> None:
    """The document promises another type of one field."""
    document = httpx2.get(f"{address}/api/v1/openapi.json", timeout=60).json()
    document["components"]["schemas"]["IndexMeta"]["properties"]["chain_id"] = {"type": "string"}
    document["paths"] = {path: each for path, each in document["paths"].items() if path.endswith("/meta")}
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(document))
    done = run_schemathesis(address, str(file), tmp_path)
    assert done.returncode == 1 and "Response violates schema" in done.stdout, done.stdout[-3000:]
