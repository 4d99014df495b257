"""`bytewise pool`: manages a bond pool, a contract by which several accounts pay the bond of one challenge and share the
result."""

import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import Address, Digest, hex0x
from bytewise.service.secret import read_secret, write_secret
from cli.chain.privileged_call import CallContext, account_option, call_context, deliver, send_creation
from cli.options import DA_URLS, CallOptions, DaOption, ReceiptArgument, digest_argument, with_call_options
from cli.output import Fields, emit, ether, print_entries
from cli.receipt.search import found_receipt

if TYPE_CHECKING:
    from bytewise_client.receipt_search import Found
    from chain.deployment.bond_pool import BondPoolState, PoolShare

PoolArgument = Annotated[str, typer.Argument(metavar="POOL", help="Address of the pool, as `pool create` printed it.")]
AnswerOption = Annotated[
    str | None, typer.Option("--answer", help="out_hash that a right execution gives, 0x-hex: a conviction then pays α too.")
]
SecretOption = Annotated[
    Path | None, typer.Option("--secret", help="With --answer: new file for the salt of its commitment, or that of a try.")
]
SaltOption = Annotated[Path, typer.Option("--secret", help="File that `pool create --answer` wrote.")]


@with_call_options
def create(
    asked: CallOptions,
    receipt_id: ReceiptArgument,
    da: DaOption = DA_URLS,
    answer: AnswerOption = None,
    secret: SecretOption = None,
) -> None:
    """Deploy a pool that collects the bond of one challenge.

    Anybody can join the pool with `bytewise pool join`, and can take the money back until the pool challenges. If you know the
    right answer, commit to it with --answer. Then keep the secret file, and use it in `bytewise pool reveal` after the verdict.

    Exit codes: 0 the chain accepts the pool (or has it), 4 no such receipt, 5 a service is down, or what was sent is in no block
    yet (look before you repeat the command), 6 a running node uses the key, 64 wrong input.

    Example: bytewise pool create 0x71e0… --key me.key --send
    """
    from chain.deployment.bond_pool import committed_terms, creation_code
    from chain.deployment.deploy import created_address

    if (answer is None) != (secret is None):
        raise ConfigurationError("--secret", "goes with --answer: without the salt nobody can show that the pool knew the answer")
    expected = None if answer is None else digest_argument("--answer", answer)
    of, found = call_context(asked), _receipt(asked, receipt_id, da)
    who, bond = of.named(), _bond_of(of, found)
    nonce = of.client.nonce(who)
    at = created_address(who, nonce)
    # The file is written before the pool is created, because a pool whose salt is lost cannot reveal and gets no reward.
    salt = Digest(secrets.token_bytes(32)) if secret is None else _kept_salt(secret)
    terms = committed_terms(of.network, at, found.checked.receipt_id, bond, expected, salt)
    send_creation(of, "BondPool", creation_code(of.network, terms), nonce, {"pool": at, "bond_wei": str(bond)})


@with_call_options
def show(asked: CallOptions, pool: PoolArgument) -> None:
    """Show a pool: receipt, bond, what is missing, its dispute, and your part of it (--from).

    The command first checks the pool's code, court and ledger, because a false pool could pay the money to anybody.

    Exit codes: 0 shown, 5 the node does not answer, 64 wrong input, or no pool of this network.

    Example: bytewise pool show 0x5fbd… --from 0x7099…
    """
    from chain.deployment.bond_pool import read_bond_pool, read_share

    of, at = call_context(asked), account_option("POOL", pool)
    found = read_bond_pool(of.client, of.network, at)
    share = None if of.account is None else read_share(of.client, at, of.account)
    record = _pool_record(of, at, found, share)
    emit(of.output, record, lambda: print_entries([_entry(record)], "pools"))


@with_call_options
def join(
    asked: CallOptions, pool: PoolArgument, value: Annotated[int, typer.Option("--value", min=1, help="Wei that you pay.")]
) -> None:
    """Pay a part of the pool's bond.

    Money that exceeds the bond comes back in the same transaction. If the operator is convicted, `bytewise pool claim` brings
    your part back, with its share of the reward if the pool gets a reward. The pool gets one only after
    `bytewise pool reveal`, and never for the verdict UNAVAILABLE. If the answer is confirmed, your part is lost. After a DRAW
    the bond comes back less the fee of one seat.

    Exit codes: 0 the pool accepts it (or has it), 5 the node does not answer, the contract takes the call only later, or what was
    sent is in no block yet (look before you repeat the command), 6 a running node uses the key, 64 wrong input, or refused by the
    contract.

    Example: bytewise pool join 0x5fbd… --value 20000000000000000 --key me.key --send
    """
    of, at = call_context(asked), account_option("POOL", pool)
    _verify_bond(of, _state(of, at).terms.bond_wei)
    _call(asked, pool, "contribute", value_wei=value)


@with_call_options
def leave(asked: CallOptions, pool: PoolArgument) -> None:
    """Take your whole part back, as long as the pool has not challenged.

    Exit codes: 0 the pool pays it (or paid it), 5 the node does not answer, the contract takes the call only later, or what was
    sent is in no block yet (look before you repeat the command), 6 a running node uses the key, 64 wrong input, or refused by the
    contract.
    """
    _call(asked, pool, "takeBack")


@with_call_options
def challenge(asked: CallOptions, pool: PoolArgument, da: DaOption = DA_URLS) -> None:
    """Open the dispute with the pool's bond; what the bond still lacks is paid by you.

    The command looks the receipt up in the lists of the data availability store. Afterwards nobody can leave the pool.

    Exit codes: 0 the court accepts it (or has it), 4 no such receipt, 5 a service is down, or what was sent is in no block yet
    (look before you repeat the command), 6 a running node uses the key, 64 wrong input, or refused.
    """
    from bytewise.protocol.signing import struct_values
    from chain.deployment.bond_pool import verify_bond_pool

    at = account_option("POOL", pool)
    of = call_context(asked)
    terms = verify_bond_pool(of.client, of.network, at)
    found = _receipt(asked, hex0x(terms.receipt_id), da)
    state = _state(of, at)
    signed = found.checked.signed
    arguments = (struct_values(signed.receipt), signed.signature, found.header.batch_id, found.checked.proof)
    _call(asked, pool, "challenge", arguments, state.missing_wei)


@with_call_options
def reveal(asked: CallOptions, pool: PoolArgument, secret: SaltOption) -> None:
    """Show that the pool knew the answer that won: a conviction then pays it the challenger's share of the slash.

    The court accepts this from the verdict of a round until the end of the airgap. It accepts nothing before the verdict,
    because members could copy the answer. After the verdict of an appeal the pool must reveal again. So wait for the airgap if
    you can.

    Exit codes: 0 the court accepts it (or has it), 5 the node does not answer, the contract takes the call only later, or what
    was sent is in no block yet (look before you repeat the command), 6 a running node uses the key, 64 wrong input, or refused by
    the court.
    """
    from chain.deployment.calls import ContractCall

    at = account_option("POOL", pool)
    of = call_context(asked)
    deliver(of, ContractCall("Disputes", "openAlt", (_state(of, at).dispute, _salt_of(secret))))


@with_call_options
def claim(asked: CallOptions, pool: PoolArgument) -> None:
    """Take your share of what came back, once the dispute is over and the ledger's delay has passed.

    Exit codes: 0 the pool pays it (or paid it), 5 the node does not answer, the contract takes the call only later, or what was
    sent is in no block yet (look before you repeat the command), 6 a running node uses the key, 64 wrong input, or nothing is
    owed to you now.
    """
    _call(asked, pool, "claim")


def _call(asked: CallOptions, pool: str, function: str, arguments: tuple[Any, ...] = (), value_wei: int = 0) -> None:
    """Checks that `pool` is a pool of this network, and then calls one of its functions. `value_wei` is sent with the call."""
    from chain.deployment.bond_pool import CONTRACT, verify_bond_pool
    from chain.deployment.calls import ContractCall

    of, at = call_context(asked), account_option("POOL", pool)
    verify_bond_pool(of.client, of.network, at)
    deliver(of, ContractCall(CONTRACT, function, arguments, value_wei, at))


def _state(of: CallContext, at: Address) -> "BondPoolState":
    from chain.deployment.bond_pool import read_bond_pool

    return read_bond_pool(of.client, of.network, at)


def _receipt(asked: CallOptions, text: str, da: list[str]) -> "Found":
    from bytewise_client.connection import connected

    with connected(asked.network, asked.rpc, da) as connection:
        return found_receipt(connection, text)


_SECRET = re.compile(r"salt of a bond pool: (0x[0-9a-f]{64})")
"""Content of a secret file. The text names its purpose, so that nobody uses a key file as a salt: the salt becomes public when
the pool reveals."""


def _kept_salt(file: Path) -> Digest:
    """Reads the salt of a secret file. A missing file is created with a new salt."""
    if not file.exists():
        write_secret(file, f"salt of a bond pool: {hex0x(secrets.token_bytes(32))}\n".encode())
    return _salt_of(file)


def _salt_of(file: Path) -> Digest:
    found = _SECRET.fullmatch(read_secret(file).reveal().decode("ascii", "replace"))
    if found is None:
        raise ConfigurationError(
            file.name, "is no secret file of a pool: name the one that `bytewise pool create` wrote, or a new one"
        )
    return digest_argument(file.name, found[1])


def _verify_bond(of: CallContext, bond_wei: int) -> None:
    """Raises `ConfigurationError` if the bond is not the required bond of any version of the parameters. A pool with such a bond
    could never challenge."""
    head = of.reader.head()
    versions = range(1, of.reader.params_version(head) + 1)
    if bond_wei not in (known := {of.reader.params(each, head).required_bond for each in versions}):
        asked = ", ".join(map(str, sorted(known)))
        raise ConfigurationError("POOL", f"collects {bond_wei} wei, and the court asks for {asked}: it can never challenge")


def _bond_of(of: CallContext, found: "Found") -> int:
    """Returns the bond in wei that a challenge of the receipt needs, by the parameters of its batch."""
    head = of.reader.head()
    batch = of.reader.batch(found.header.batch_id, head)
    assert batch is not None, "the receipt was found in it"
    return of.reader.params(batch[1].params_version, head).required_bond


def _pool_record(of: CallContext, at: Address, found: "BondPoolState", share: "PoolShare | None") -> dict[str, Any]:
    """Returns the state of a pool as plain data. `share` is the asking account's part, or None if no account was named."""
    case = of.reader.dispute(found.dispute, of.reader.head(), found.terms.receipt_id)
    by_other = case is not None and not found.is_challenged
    record: dict[str, Any] = {
        "pool": at, "receipt": hex0x(found.terms.receipt_id), "dispute": hex0x(found.dispute),
        "state": "challenged" if found.is_challenged else "challenged by another" if by_other else "collecting",
        "bond_wei": str(found.terms.bond_wei), "contributed_wei": str(found.contributed_wei),
        "missing_wei": str(found.missing_wei), "phase": None if case is None else case.phase.name,
        "verdict": None if case is None else case.verdict.name,
    }  # fmt: skip
    if share is not None:
        record |= {
            "account": of.account,
            "your_part_wei": str(share.contributed_wei),
            "your_claim_wei": str(share.claimable_wei),
        }
    return record


_NEXT = {
    "collecting": "anybody may join, leave, or challenge",
    "challenged by another": "every contributor takes its money back: bytewise pool leave",
    "challenged": "contributors claim what came back, after the end and the ledger's delay: bytewise pool claim",
}
"""The next step of a pool, by its state."""


def _entry(record: dict[str, Any]) -> tuple[str, Fields]:
    fields: dict[str, object] = {
        "state": f"{record['state']}: {_NEXT[record['state']]}", "receipt": record["receipt"], "dispute": record["dispute"],
        "bond": ether(record["bond_wei"]), "contributed": ether(record["contributed_wei"]),
        "missing": ether(record["missing_wei"]),
    }  # fmt: skip
    if record["phase"] is not None:
        fields |= {"phase": record["phase"], "verdict": record["verdict"]}
    if "account" in record:
        fields |= {"your part": ether(record["your_part_wei"]), "your claim": ether(record["your_claim_wei"])}
    return record["pool"], fields
