"""`make play-guide`: the guide's blocks are one script, which ends at the first command that fails and leaves no process."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.source import ROOT

TOOL, GUIDE = ROOT / "docs" / "tools" / "play_guide.py", ROOT / "docs" / "guide" / "start-a-network.md"


def played(page: Path, text: str, *options: str) -> "subprocess.CompletedProcess[str]":
    page.write_text(text)
    command = [sys.executable, str(TOOL), str(page), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_commands_of_the_guide_are_a_script() -> None:
    blocks = [line[4:] for line in GUIDE.read_text().splitlines() if line.startswith("    ")]
    done = subprocess.run(["bash", "-n"], input="\n".join(blocks), capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "") and any("bytewise verify" in line for line in blocks)


def test_page_that_is_not_there_is_named() -> None:
    done = subprocess.run([sys.executable, str(TOOL), "no.md"], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2 and "no.md: No such file" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(("last", "options", "code"), [("true", (), 0), ("false", (), 1), ("sleep 600", ("--timeout", "1"), 124)])
def test_guide_ends_with_its_code_and_leaves_no_process(tmp_path: Path, last: str, options: tuple[str, ...], code: int) -> None:
    mark = tmp_path / "pid"
    text = f"# A page\n\nFirst:\n\n    sleep 500 &\n    echo $! > {mark}\n\nThen:\n\n    {last}\n    echo the end\n"
    done = played(tmp_path / "page.md", text, *options)
    assert done.returncode == code and ("the end\n" in done.stdout) == (code == 0)
    status, deadline = Path("/proc") / mark.read_text().strip() / "stat", time.monotonic() + 10
    while status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline, "the process of the first block still runs"
        time.sleep(0.05)
