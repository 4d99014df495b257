"""The search through a process finds a number that nothing but a Python `int` holds: what a sum of shares would be."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from bytewise.crypto.curve import ORDER
from tests.fixtures.memory_search import in_memory, scalar_forms

HOLDER = f"""
import os, sys
a, b = (int.from_bytes(os.urandom(32)) for _ in range(2))
key = a * b % {ORDER}
print(a, b, flush=True)
sys.stdin.read()
"""
"""Shows what makes the number, and never the number: no text or bytes of it were ever in its memory."""


@pytest.fixture
def holder() -> Iterator[tuple[int, int]]:
    """A process that holds a number, and the number."""
    command = [sys.executable, "-S", "-c", HOLDER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        a, b = map(int, process.stdout.readline().split())
        yield process.pid, a * b % ORDER


def test_number_stored_as_an_int_only_is_found(holder: tuple[int, int]) -> None:
    process, key = holder
    assert in_memory(process, scalar_forms(key)) == {"python"}
    assert in_memory(process, scalar_forms(key ^ 1)) == set()
