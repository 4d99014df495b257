"""Checks that the contracts hold the money that they owe. Money counts as missing only if the block's state root proves it."""

from collections.abc import Mapping
from typing import Any

from bytewise.protocol.address_book import Network, StakeSource
from bytewise.protocol.digests import keccak256
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.units import Address, Digest
from bytewise.storage.index.tables import CreditFact, LedgerFact
from chain.capsule.header import ProvenHeader, header_of
from chain.capsule.trie import BrokenProof, ProofNodes, decode_list, decode_rlp, to_integer
from chain.client.access import Chain
from chain.client.address_book import address_of
from chain.client.blocks import header_rlp
from chain.client.layout import layout
from chain.client.rpc import at_hash, reading_answer
from chain.client.structs import from_struct
from chain.reads.records import MoneyTotals
from dashboard.index.money import CREDITS
from dashboard.monitor.findings import CheckReport
from dashboard.monitor.observation import MoneyParts, MoneySource, Observation

LEDGER, VAULT = "Ledger", "StakeVault"
_PARTS: Mapping[str, tuple[str, ...]] = {
    LEDGER: ("_totalPots", "_totalCredits", "_treasury", "_totalBurned"), VAULT: ("totalStake", "totalUnbonding"),
}  # fmt: skip
"""Storage variables of each contract, whose sum is the money that it must hold (`chain/abi/layout`)."""


def money_sums(seen: Observation, report: CheckReport) -> None:
    """Reports each contract that provably holds less than it owes. Adds a doubt if money seems to be missing without proof, if
    the credits of all accounts do not add up to their total, or if the node's views contradict its proofs."""
    for part in seen.money.proven:
        if part.drift < 0:
            text = f"holds {part.balance} wei and owes {part.parts}: {-part.drift} wei are missing"
            report.note(part.contract, text)
    if seen.money.failure:
        report.doubts.append(f"money seems to be missing, and the node does not prove it: {seen.money.failure}")
    report.doubts.extend(_contradictions(seen.money))
    index = seen.scene.index
    ledger = {row["name"]: row["amount"] for row in index.all(LedgerFact)}
    owed = sum(row["owed"] for row in index.all(CreditFact))
    if owed != ledger.get(CREDITS, 0):
        report.doubts.append(f"credits of all accounts in the index are {owed} wei, and in all {ledger.get(CREDITS, 0)}")


def _contradictions(money: MoneySource) -> list[str]:
    """Returns one line for each contract for which a node's views differ from its own proofs."""
    proven = {each.contract: each for each in money.proven}
    return [
        f"the node says that {each.contract} has a drift of {each.drift} wei, and proves {proven[each.contract].drift}"
        for each in money.viewed
        if each.contract in proven and proven[each.contract] != each
    ]


def read_money(chain: Chain, network: Network, raw: Mapping[str, Any], block: int, hash_: Digest) -> MoneySource:
    """Reads the money of the contracts at one block. `raw` is the result of `Lens.money` at that block. If by `raw` a contract
    holds less than it owes, this also reads a proof against the block's state root."""
    with reading_answer("money"):
        viewed = viewed_parts(from_struct(MoneyTotals, raw), network)
    if all(each.drift >= 0 for each in viewed):
        return MoneySource(viewed, (), "")
    try:
        return MoneySource(viewed, proven_parts(chain, network, viewed, block, hash_), "")
    except (Fault, Unavailable) as error:
        return MoneySource(viewed, (), str(error))


def viewed_parts(totals: MoneyTotals, network: Network) -> tuple[MoneyParts, ...]:
    """Returns the balance of each contract and the sum of its parts, as `Lens` reports them. With stake at EigenLayer the result
    has no vault, because no contract of this network holds the stake."""
    held = totals.total_pots + totals.total_credits + totals.treasury + totals.total_burned
    ledger = MoneyParts(LEDGER, totals.ledger_balance, held)
    if network.stake is StakeSource.EIGENLAYER:
        return (ledger,)
    return ledger, MoneyParts(VAULT, totals.vault_balance, totals.total_stake + totals.total_unbonding)


def proven_parts(
    chain: Chain, network: Network, viewed: tuple[MoneyParts, ...], block: int, hash_: Digest
) -> tuple[MoneyParts, ...]:
    """Returns balance and parts of each contract in `viewed`, proven against the block's state root. Raises `TryAgain` if the
    node gives no proof or a wrong one."""
    header = header_of(header_rlp(chain, block))
    if header is None or header.hash != hash_:
        raise TryAgain("chain", f"the header of block {block} is not that of the index")
    return tuple(_proven(chain, header, address_of(network, each.contract), each.contract) for each in viewed)


def _proven(chain: Chain, header: ProvenHeader, at: Address, contract: str) -> MoneyParts:
    total, balance = 0, 0
    for name in _PARTS[contract]:
        place = layout(contract).place(name)
        proof = chain.slot_proof(at, place.slot, at_hash(header.hash))
        try:
            account = ProofNodes(proof.account).value(header.state_root, keccak256(bytes.fromhex(at[2:])).hex())
            if account is None:
                raise BrokenProof("there is no such account")
            fields = decode_list(account, 4)
            balance, root = to_integer(fields[1]), Digest(fields[2])
            word = ProofNodes(proof.storage).value(root, keccak256(place.slot.to_bytes(32)).hex())
            total += 0 if word is None else to_integer(decode_rlp(word))
        except BrokenProof as error:
            raise TryAgain("chain", f"the node's proof of {contract}.{name} is wrong: {error}") from None
    return MoneyParts(contract, balance, total)
