"""Contract calls of a verb: the verb first tries the call on the chain, and then prints it for another signer or sends it."""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bytewise.protocol.errors.actors import ConfigurationError, RpcRefused
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Address, hex0x
from cli.options import CallOptions, asked_password
from cli.output import OutputFormat, printable

if TYPE_CHECKING:
    from bytewise.protocol.address_book import Network
    from bytewise.protocol.signing import LocalSigner
    from chain.client.access import Chain
    from chain.client.rpc import Inclusion
    from chain.deployment.calls import ContractCall
    from chain.reads.reader import SnapshotReader


SEND_TIMEOUT_S = 120.0
"""Longest time to wait until a transaction is in a block, in seconds. It is ten blocks of main net."""


class CallContext(NamedTuple):
    """The context in which a verb calls a contract: the network, the account that signs, and whether to send the call."""

    client: "Chain"
    reader: "SnapshotReader"
    signer: "LocalSigner | None"
    account: Address | None
    """The account that will sign, or None if the user named no account."""
    send: bool
    """True if the user asked to send the call."""
    output: OutputFormat
    key: Path | None = None
    """Key file that signs; None for a development account."""

    @property
    def network(self) -> "Network":
        """The network's address book."""
        return self.reader.network

    def named(self) -> Address:
        """Returns the account that will sign. Raises `ConfigurationError` if the user named no account."""
        if self.account is None:
            raise ConfigurationError("account", "who is to sign? Give --from, or --key")
        return self.account


def call_context(asked: CallOptions) -> CallContext:
    """Connects to the network of the address book, checks the code of its contracts, and finds the account that signs.

    Raises `ConfigurationError` if options contradict each other, and `KeyInUse` if the call is to be sent with the key file of a
    running node: the node would take that for a foreign transaction and stop sending.
    """
    from bytewise.service.key_lock import verify_unused
    from bytewise_client.connection import chain_of
    from chain.client.address_book import read_network, verify_code
    from chain.reads.reader import SnapshotReader

    key, account = asked.key, asked.devnet_account
    if sum(each is not None for each in (asked.sender, key, account)) > 1:
        raise ConfigurationError("account", "give one of --from, --key and --devnet-account")
    book = read_network(asked.network)
    signer = signer_of(book.chain_id, key, account, asked.password_file) if (key, account) != (None, None) else None
    if asked.send and signer is None:
        raise ConfigurationError("--send", "needs the key of who sends: --key FILE")
    if asked.send and key is not None:
        verify_unused(key)
    client = chain_of(asked.rpc, book.chain_id)
    reader = SnapshotReader(client, verify_code(client, book))
    named = account_of(asked.sender) if asked.sender else None
    return CallContext(client, reader, signer, signer.address if signer else named, asked.send, asked.output, key)


def deliver(of: CallContext, act: "ContractCall", more: Mapping[str, Any] | None = None) -> None:
    """Tries a call as the account that will sign, prints it, and sends it if the user asked for that.

    `more` has further fields to print. If the contract would refuse the call now, raises `ConfigurationError` with the contract's
    reason.
    """
    from chain.deployment.calls import dry_run, request_of

    who = of.named()
    if act.value_wei:
        _verify_balance(of, who, act.value_wei, "wei go with the call")
    try:
        dry_run(of.client, of.network, who, act)
    except Fault as error:
        raise ConfigurationError(str(act), f"refused for {who}: {error}") from None
    request: dict[str, Any] = request_of(of.network, who, act)
    if of.output is not OutputFormat.TABLE:
        told = {"chain_id": of.network.chain_id, **request, **(more or {})}
        if of.signer is not None and of.send:
            done = _sent(of, of.signer, act)
            told |= {"block": done.number, "transaction": hex0x(done.transaction)}
        print(json.dumps(told))
        return
    print(f"{act} may be called by {who}")
    named = {**(more or {}), "target": request["to"], "value": act.value_wei, "calldata": request["data"]}
    for name, value in named.items():
        print(printable(f"{name} {value}"))
    if of.send and of.signer:
        done = _sent(of, of.signer, act)
        print(f"done in block {done.number}, transaction {hex0x(done.transaction)}")


def send_creation(of: CallContext, contract: str, code: bytes, nonce: int, more: Mapping[str, Any]) -> None:
    """Tries to deploy a contract that no address book lists, prints the transaction with `more`, and sends it if the user asked.

    `nonce` is the account's nonce for the transaction. The contract's address depends on it, so the transaction is never sent
    with another nonce. Raises `ConfigurationError` if the chain would refuse the transaction now.
    """
    from chain.sending.fees import fees_at
    from chain.sending.transactions import TransactionCall, send_all

    who = of.named()
    request = {"from": who, "data": "0x" + code.hex(), "value": "0x0"}
    try:
        gas = of.client.estimate(request)
        told: dict[str, Any] = {
            "chain_id": of.network.chain_id,
            **more,
            "from": who,
            "nonce": nonce,
            "gas": gas,
            "data": request["data"],
        }
        if of.send and of.signer is not None:
            gas += gas // 2
            _verify_balance(of, who, gas * fees_at(of.client.head().base_fee_wei).max_fee, "may go for its gas")
            with _reserved(of):
                (done,) = send_all(of.client, [TransactionCall(of.signer, None, code, 0, gas, nonce)], SEND_TIMEOUT_S)
            told |= {"block": done.number, "transaction": hex0x(done.transaction)}
    except (Fault, RpcRefused) as error:
        raise ConfigurationError(contract, f"not deployed: {error}") from None
    if of.output is not OutputFormat.TABLE:
        print(json.dumps(told))
        return
    print(f"{who} may deploy a {contract}" if "block" not in told else f"deployed in block {told['block']}")
    for name, value in told.items():
        print(printable(f"{name} {value}"))


def signer_of(
    chain_id: int, key: Path | None, devnet_account: int | None, password_file: Path | None = None,
    option: str = "--password-file",
) -> "LocalSigner":  # fmt: skip
    """Returns the signer of a key file, or of a test account of anvil. Raises `ConfigurationError` if neither or both are given.
    The password of a keystore comes from `password_file`, or the user is asked for it. `option` is the option or setting of
    `password_file`, for errors."""
    from bytewise.service.secret import read_secret
    from chain.sending.keys import devnet_signer, load_signer

    if (key is None) == (devnet_account is None):
        raise ConfigurationError("key", "give --key or --devnet-account, one of them")
    if key is not None:
        return load_signer(key, asked_password(key, None, option) if password_file is None else read_secret(password_file))
    assert devnet_account is not None, "one of the two is given"
    return devnet_signer(chain_id, devnet_account)


def account_of(text: str) -> Address:
    """Parses an account that a user typed. Raises `ConfigurationError` if the text is no account."""
    from chain.client.arguments import read_address

    try:
        return read_address(text)
    except MalformedValue:
        raise ConfigurationError(
            "account", f"{text[:60]} is none: 0x and 40 hex digits, with their checksum if of both cases"
        ) from None


def account_option(option: str, text: str) -> Address:
    """Parses an account that a user gave with an option. Raises `ConfigurationError` with the option's name if the text is no
    account."""
    try:
        return account_of(text)
    except ConfigurationError as error:
        raise ConfigurationError(option, str(error.values[1])) from None


def moment(unix_s: int) -> str:
    """Formats a Unix time in seconds as a date for people, or as a number if no calendar can show it."""
    try:
        return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        # A proposal may contain any delay, also one that no calendar can show.
        return f"second {unix_s}"


def _verify_balance(of: CallContext, who: Address, wei: int, what: str) -> int:
    have = of.client.balance(who, "latest")
    if have < wei:
        raise ConfigurationError("balance", f"{who} has {have} wei, {wei} {what}: send it the rest first")
    return have


def _reserved(of: CallContext) -> AbstractContextManager[None]:
    """Returns a context in which no node of this machine can start with the key that signs."""
    from bytewise.service.key_lock import hold_key

    return nullcontext() if of.key is None else hold_key(of.key)


def _sent(of: CallContext, signer: "LocalSigner", act: "ContractCall") -> "Inclusion":
    """Sends the call, waits until it is in a block, and returns the block and transaction. Raises `ConfigurationError` if it
    fails."""
    from chain.deployment.calls import measured
    from chain.sending.fees import fees_at
    from chain.sending.transactions import send_all

    try:
        call = measured(of.client, of.network, signer, act)
        most = act.value_wei + call.gas * fees_at(of.client.head().base_fee_wei).max_fee
        _verify_balance(of, signer.address, most, "may go with the call and for its gas")
        with _reserved(of):
            (receipt,) = send_all(of.client, [call], SEND_TIMEOUT_S)
    except (Fault, RpcRefused) as error:
        # The chain may have changed since the call was tried.
        raise ConfigurationError(str(act), f"not done: {error}") from None
    return receipt
