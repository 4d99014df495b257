"""What a process holds once a model is loaded: the artifact once, and little else."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bytewise.inference.convert.convert import convert
from bytewise.inference.convert.make import make_model
from bytewise.inference.native.library import kernels
from bytewise.service.settings import child_environment

ROOT = Path(__file__).parents[3]
BESIDE = 16 * 2**20
"""Bytes that may be held beside the artifact: threads, rows of one answer, pages of the system's allocator."""

CHILD = """
import json, sys
from pathlib import Path
from bytewise.inference.artifact import artifact
from bytewise.inference.engine import ExactEngine

def held():
    (line,) = (line for line in open("/proc/self/status") if line.startswith("RssAnon:"))
    return int(line.split()[1]) * 1024

before = held()
engine = ExactEngine(artifact.load(Path(sys.argv[1])), path="native")
print(json.dumps({"held": held() - before, "modules": sorted(sys.modules)}))
"""


@pytest.mark.skipif(not kernels(), reason="no compiler here: the C engine was not built")
def test_an_engine_holds_its_artifact_once_and_no_compiler_of_the_library(tmp_path: Path) -> None:
    make_model(tmp_path / "checkpoint", 1, layers=8, width=512, heads=8, key_value_heads=4, context=256)
    convert(tmp_path / "checkpoint", tmp_path / "artifact")
    size = sum(file.stat().st_size for file in (tmp_path / "artifact").iterdir())
    assert size > 1.2 * BESIDE, "a second copy would show"
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path / "artifact")], cwd=ROOT, env=child_environment(),
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    found = json.loads(child.stdout)
    assert size <= found["held"] <= size + BESIDE
    assert not {"torch._dynamo", "torch._inductor", "sympy"} & set(found["modules"])
