"""Runs a fork of a chain on this machine: a process of the development chain anvil. Between anvil and the chain's node is a
relay, through which anvil can only read the chain."""

import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from bytewise.protocol.address_book import Network
from bytewise.protocol.errors.actors import ChainReverted, TryAgain
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.units import Address, address, hex0x
from bytewise.service.settings import child_environment
from chain.client.rpc import ChainClient, quantity
from chain.deployment.calls import ContractCall
from cli.demo.site import free_ports
from cli.drill.relay import reading_relay

START_S = 60.0
"""Longest time until the fork answers, in seconds. The fork must first read a block from the chain's node."""
STOP_S = 10.0
CALL_S = 120.0
"""Timeout of one call to the fork, in seconds. The fork may have to read much state from the chain's node."""
FUNDS_WEI = 10**24
"""Wei that an account of a drill gets on the fork."""
_GAS = 15_000_000


class ForkedChain:
    """A running fork. A drill can send calls from every account, because the fork needs no signatures. Gas costs nothing on the
    fork."""

    def __init__(self, client: ChainClient, network: Network) -> None:
        self.client, self.network = client, network

    def fund(self, account: Address, wei: int = FUNDS_WEI) -> None:
        """Gives an account ether that exists on the fork only."""
        self.client.rpc("anvil_setBalance", account, hex(wei))

    def new_account(self) -> Address:
        """Returns a new account with ether on the fork. Nobody has its key."""
        made = address(hex0x(secrets.token_bytes(20)))
        self.fund(made)
        return made

    def send(self, sender: Address, call: ContractCall) -> None:
        """Sends a call from an account, and waits until it is in a block. Raises `ChainReverted` with the contract's reason if
        the call fails."""
        request = self._request(sender, call)
        self.client.replay(request, "latest")
        found = self.client.rpc("eth_sendTransaction", request)
        if quantity(self._receipt(found)["status"]) != 1:
            raise ChainReverted(str(call), "on the fork, after a call on the same state went well")

    def _receipt(self, transaction: str) -> Mapping[str, Any]:
        # The fork mines each transaction at once, but answers before its block is stored.
        end = time.monotonic() + CALL_S
        while time.monotonic() < end:
            receipt: Mapping[str, Any] | None = self.client.rpc("eth_getTransactionReceipt", transaction)
            if receipt is not None:
                return receipt
            time.sleep(0.02)
        raise TryAgain("fork", f"did not mine a transaction in {CALL_S:.0f} s")

    def refusal(self, sender: Address, call: ContractCall) -> str:
        """Tries a call from an account without changing anything. Returns the contract's reason if the contract refuses the call,
        or an empty text if it accepts the call."""
        try:
            self.client.replay(self._request(sender, call), "latest")
        except ChainReverted as error:
            return str(error)
        return ""

    def pass_time(self, seconds: int) -> None:
        """Moves the fork's time forward by a number of seconds, and mines a block."""
        self.client.rpc("evm_increaseTime", seconds)
        self.client.rpc("evm_mine")

    def mine(self, blocks: int = 2) -> None:
        """Mines a number of blocks, one second apart."""
        self.client.rpc("anvil_mine", hex(blocks), hex(1))

    @contextmanager
    def rehearsal(self) -> Iterator[None]:
        """Context manager that undoes at its end all changes that its block made on the fork."""
        kept = self.client.rpc("evm_snapshot")
        try:
            yield
        finally:
            self.client.rpc("evm_revert", kept)

    def _request(self, sender: Address, call: ContractCall) -> dict[str, Any]:
        return {
            "from": sender, "to": call.target(self.network), "data": hex0x(call.calldata), "value": hex(call.value_wei),
            "gas": hex(_GAS), "gasPrice": "0x0",
        }  # fmt: skip


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Context manager in which SIGTERM and SIGHUP end the program with its clean-up, as Ctrl-C does. In another thread than the
    main thread it does nothing, because only the main thread gets signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    kept = {each: signal.signal(each, end) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


@contextmanager
def running_fork(program: Path, url: str, network: Network, block: int) -> Iterator[ForkedChain]:
    """Context manager that starts a fork of the chain at a block, yields it, and ends it. Raises `TryAgain` if the fork does not
    answer in time.

    `program` is the program anvil, and `url` the URL of the chain's node.
    """
    (port,) = free_ports(1)
    with ended_by_signals(), tempfile.TemporaryDirectory(prefix="bytewise-drill-") as folder, reading_relay(url) as source:
        command = [
            str(program), "--host", "127.0.0.1", "--port", str(port), "--chain-id", str(network.chain_id), "--fork-url", source,
            "--fork-block-number", str(block), "--no-storage-caching", "--cache-path", folder, "--accounts", "1",
            "--block-base-fee-per-gas", "0", "--gas-price", "0", "--auto-impersonate", "--quiet",
        ]  # fmt: skip
        silent = subprocess.DEVNULL
        process = subprocess.Popen(command, stdin=silent, stdout=silent, stderr=silent, env=child_environment())
        try:
            client = ChainClient(f"http://127.0.0.1:{port}", network.chain_id, CALL_S)
            _wait(process, client)
            yield ForkedChain(client, network)
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: "subprocess.Popen[bytes]", client: ChainClient) -> None:
    """Waits until the fork answers. Raises `TryAgain` if anvil ends or does not answer in time."""
    end = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < end:
        try:
            client.head()
            return
        except BytewiseError:
            time.sleep(0.1)
    ended = f"anvil ended with code {process.returncode}" if process.returncode is not None else f"no answer in {START_S:.0f} s"
    raise TryAgain("fork", f"{ended}: does the chain node give the state of its newest block (eth_getProof, eth_getStorageAt)?")
