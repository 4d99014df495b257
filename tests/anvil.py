"""A real chain for tests: anvil as a process, mined by hand."""

import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from bytewise.protocol.units import Digest
from bytewise.service.settings import child_environment
from chain.client.rpc import ChainClient

PROGRAM = Path(__file__).parents[1] / "chain/contracts/node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil"
CHAIN_ID = 31337
STOP_S = 60


class Anvil:
    """One running chain. Blocks are mined by `mine` (or at once, while `automine` is on)."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = ChainClient(url, CHAIN_ID)

    def rpc(self, method: str, *params: Any) -> Any:
        """One call."""
        return self.client.rpc(method, *params)

    def mine(self, blocks: int = 1) -> int:
        """Mines blocks one second apart; returns the new height."""
        for _ in range(blocks):
            self.rpc("evm_mine")
        return self.client.head().number

    def automine(self, on: bool) -> None:
        """Whether each transaction gets its block at once."""
        self.rpc("evm_setAutomine", on)

    def pass_time(self, seconds: int) -> None:
        """Mines one block so many seconds later."""
        self.rpc("evm_increaseTime", seconds)
        self.mine()

    def reorganise(self, depth: int) -> None:
        """Replaces the newest blocks by as many other, empty ones; their transactions are gone."""
        self.rpc("anvil_reorg", depth, [])

    def drop(self, tx_hash: Digest) -> None:
        """Throws a transaction out of the pool."""
        self.rpc("anvil_dropTransaction", "0x" + tx_hash.hex())


@contextmanager
def running_anvil(*options: str) -> Iterator[Anvil]:
    """Starts anvil on a free port and asserts that it ends well."""
    process = subprocess.Popen(
        [PROGRAM, "--port", "0", "--chain-id", str(CHAIN_ID), "--accounts", "20", *options],
        stdout=subprocess.PIPE, text=True, env=child_environment(),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        port = next(found[1] for line in process.stdout if (found := re.search(r"Listening on 127\.0\.0\.1:(\d+)", line)))
        # It writes a line for each call: a pipe that nobody reads fills up, and stops it.
        threading.Thread(target=_drain, args=(process.stdout,), daemon=True).start()
        yield Anvil(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        assert process.wait(STOP_S) == 0


def _drain(pipe: IO[str]) -> None:
    with pipe:
        for _ in pipe:
            pass
