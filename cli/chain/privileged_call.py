"""Contract calls that commands make for their user: a command first tries the call on the chain. Then it prints the call for
another signer, or sends it."""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
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
"""Longest time to wait until a transaction is in a block, in seconds. Main net makes ten blocks in this time."""


class CallContext(NamedTuple):
    """The context in which a command calls a contract: the network, the account that signs, and whether to send the call."""

    client: "Chain"
    reader: "SnapshotReader"
    signer: "LocalSigner | None"
    account: Address | None
    """The account that will sign, or None if the user named no account."""
    send: bool
    """True if the user asked to send the call."""
    output: OutputFormat
    key: Path | None = None
    """Key file of the signer. None if a development account signs, or if nobody signs."""

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

    Raises `ConfigurationError` if options contradict each other. Raises `KeyInUse` if the user wants to send the call with the
    key file of a running node. Such a node would find a transaction that it did not send, and would stop sending.
    """
    from bytewise.service.node_files.key_lock import verify_unused
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


def deliver(context: CallContext, call: "ContractCall", more: Mapping[str, Any] | None = None) -> None:
    """Tries a call as the account that will sign, prints the call, and sends it if the user asked to send it.

    `more` has further fields to print. Raises `ConfigurationError` with the contract's reason if the contract would refuse the
    call now.
    """
    from chain.deployment.calls import dry_run, request_of

    account = context.named()
    if call.value_wei:
        _verify_balance(context, account, call.value_wei, "wei go with the call")
    try:
        dry_run(context.client, context.network, account, call)
    except Fault as error:
        raise ConfigurationError(str(call), f"refused for {account}: {error}") from None
    request: dict[str, Any] = request_of(context.network, account, call)
    if context.output is not OutputFormat.TABLE:
        document = {"chain_id": context.network.chain_id, **request, **(more or {})}
        if context.signer is not None and context.send:
            done = _sent(context, context.signer, call)
            document |= {"block": done.number, "transaction": hex0x(done.transaction)}
        print(json.dumps(document))
        return
    print(f"{call} may be called by {account}")
    named = {**(more or {}), "target": request["to"], "value": call.value_wei, "calldata": request["data"]}
    for name, value in named.items():
        print(printable(f"{name} {value}"))
    if context.send and context.signer:
        done = _sent(context, context.signer, call)
        print(f"done in block {done.number}, transaction {hex0x(done.transaction)}")


def send_creation(context: CallContext, contract: str, code: bytes, nonce: int, more: Mapping[str, Any]) -> None:
    """Tries to deploy a contract that no address book lists, prints the transaction, and sends it if the user asked to send it.

    `nonce` is the account's nonce for the transaction. The contract's address depends on the nonce, so the transaction is never
    sent with another nonce. `more` has further fields to print. Raises `ConfigurationError` if the chain would refuse the
    transaction now.
    """
    from chain.sending.transactions import TransactionCall, fee_limit, send_all

    account = context.named()
    request = {"from": account, "data": "0x" + code.hex(), "value": "0x0"}
    try:
        gas = context.client.estimate(request)
        document: dict[str, Any] = {
            "chain_id": context.network.chain_id,
            **more,
            "from": account,
            "nonce": nonce,
            "gas": gas,
            "data": request["data"],
        }
        if context.send and context.signer is not None:
            gas += gas // 2
            ceiling_wei = fee_limit(context.client.head().base_fee_wei)
            _verify_balance(context, account, gas * ceiling_wei, "may go for its gas")
            call = TransactionCall(context.signer, None, code, 0, gas, nonce)
            with _reserved(context):
                (done,) = send_all(context.client, [call], SEND_TIMEOUT_S, ceiling_wei)
            document |= {"block": done.number, "transaction": hex0x(done.transaction)}
    except (Fault, RpcRefused) as error:
        raise ConfigurationError(contract, f"not deployed: {error}") from None
    if context.output is not OutputFormat.TABLE:
        print(json.dumps(document))
        return
    print(f"{account} may deploy a {contract}" if "block" not in document else f"deployed in block {document['block']}")
    for name, value in document.items():
        print(printable(f"{name} {value}"))


def signer_of(
    chain_id: int, key: Path | None, devnet_account: int | None, password_file: Path | None = None,
    option: str = "--password-file",
) -> "LocalSigner":  # fmt: skip
    """Returns the signer of a key file, or of a test account of anvil. Raises `ConfigurationError` unless exactly one of the two
    is given.

    The password of a keystore comes from `password_file`. If that is None, the function asks the user for the password. `option`
    is the name of the option or setting that gives `password_file`. Errors show this name.
    """
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


def _verify_balance(context: CallContext, account: Address, wei: int, what: str) -> int:
    have = context.client.balance(account, "latest")
    if have < wei:
        raise ConfigurationError("balance", f"{account} has {have} wei, {wei} {what}: send it the rest first")
    return have


def _reserved(context: CallContext) -> AbstractContextManager[None]:
    """Returns a context in which no node of this machine can start with the key that signs."""
    from bytewise.service.node_files.key_lock import hold_key

    return nullcontext() if context.key is None else hold_key(context.key)


def _sent(context: CallContext, signer: "LocalSigner", call: "ContractCall") -> "Inclusion":
    """Sends the call, waits until the transaction is in a block, and returns block and transaction. Raises `ConfigurationError`
    if the account has too little money or the call fails."""
    from chain.deployment.calls import estimated_call
    from chain.sending.transactions import fee_limit, send_all

    try:
        transaction = estimated_call(context.client, context.network, signer, call)
        ceiling_wei = fee_limit(context.client.head().base_fee_wei)
        most = call.value_wei + transaction.gas * ceiling_wei
        _verify_balance(context, signer.address, most, "may go with the call and for its gas")
        with _reserved(context):
            (receipt,) = send_all(context.client, [transaction], SEND_TIMEOUT_S, ceiling_wei)
    except (Fault, RpcRefused) as error:
        # The chain may have changed since `deliver` tried the call.
        raise ConfigurationError(str(call), f"not done: {error}") from None
    return receipt
