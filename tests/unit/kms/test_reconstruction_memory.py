"""What is left of a key in the memory of a process that rebuilt it, beside a process that erases nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from bytewise.protocol.encoding import encode
from bytewise.protocol.records.seal import unpad
from bytewise.service.settings import child_environment
from tests.fixtures import memory_search
from tests.fixtures.kms.memory_chain import Case
from tests.fixtures.kms.memory_needles import needles, world
from tests.fixtures.kms.release_network import ENTRY, World, program

__all__ = ["world"]

ROOT = Path(__file__).resolve().parents[3]


class Child:
    """The process, which waits at each place until it was looked at."""

    def __init__(self, world: World, case: Case, *careless: str) -> None:
        (world.folder / "job.json").write_bytes(encode(world.job(case)))
        command = [sys.executable, "-m", "tests.fixtures.kms.rebuild_process", str(world.folder / "job.json")]
        command += [str(world.folder / "platform.key"), program(ENTRY).hex(), *careless]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=child_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.go_on(world.secret.hex())

    def go_on(self, line: str = "") -> None:
        """Lets it run on."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def said(self) -> str:
        """Its next line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


def stages(world: World, *careless: str) -> tuple[set[str], set[str]]:
    """What is found in the process when the key is there, and when the envelope is open."""
    case = world.disputed()
    wanted = needles(world)
    with world.listening(*[(index, world.shard(index, release_shares=True)) for index in (1, 2)]):
        child = Child(world, case, *careless)
        try:
            assert child.said() == "rebuilt"
            first = memory_search.in_memory(child.process.pid, wanted)
            child.go_on()
            assert child.said() == "opened"
            second = memory_search.in_memory(child.process.pid, wanted)
            child.go_on()
            assert unpad(bytes.fromhex(child.said())) == case.payload
            assert child.process.wait(timeout=60) == 0
        finally:
            child.process.kill()
            child.process.communicate()
    return first, second


def of(*secrets: str) -> set[str]:
    """All that is found of these where nothing but a buffer holds each."""
    return {f"{secret}, {form}" for secret in secrets for form in ("big", "big 0", "big 8", "big 16")}


@pytest.mark.e2e
def test_rebuilt_key_exists_once_in_one_form_and_is_gone_after_opening(world: World) -> None:
    first, second = stages(world)
    assert first == of("key", "share 1", "share 2"), "the bytes of the buffers, and no integer or text made of them"
    assert second == set()


@pytest.mark.e2e
def test_control_process_that_erases_nothing_keeps_a_trace_of_each_secret(world: World) -> None:
    first, second = stages(world, "careless")
    assert first == of("key", "share 1", "share 2")
    left = {name.split(",")[0] for name in second}
    assert left >= {"share 1", "share 2"}, "which make the key"
