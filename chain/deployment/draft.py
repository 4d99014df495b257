"""The draft of a deployment: a file beside the future address book, by which a second run continues an interrupted deployment.

The transactions follow from the options and from the deployer's nonces. The draft is written once, before the first transaction;
the chain shows how many transactions were made.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bytewise.protocol.address_book import Network
from bytewise.protocol.digests import keccak256
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.errors.records import MalformedValue, NotCanonical, WrongFields
from bytewise.protocol.units import U64, Address, Digest
from bytewise.service.files import replace_file
from chain.client.access import Chain
from chain.deployment.deployment_check import verify_options
from chain.deployment.plan import DeploymentPlan, DeploymentStep, steps

_DATED = "RandaoSource"
"""Contract whose creation contains two recent block headers, so that its bytes differ in each run."""


@dataclass(frozen=True, slots=True)
class Draft:
    """The file that describes a deployment which was begun."""

    deployer: Address
    """Account that sends the deployment."""
    nonce: U64
    """Nonce of the first transaction."""
    asked: Digest
    """Hash over all transactions, without the two block headers that differ in each run."""
    book: Network
    """The future address book, without code hashes."""
    book_hash: Digest
    """Hash of the bytes of `book`, to detect that somebody changed them."""


def path_of(out: Path) -> Path:
    """Returns the path of the draft that belongs to an address book."""
    return out.with_name(out.name + ".draft")


def read_draft(out: Path) -> Draft | None:
    """Reads the draft beside a future address book. Returns None if there is none.

    Raises `ConfigurationError` if the file is no draft, or was changed.
    """
    path = path_of(out)
    try:
        draft = decode(Draft, path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(path.name, f"cannot be read: {error.strerror}") from None
    except (MalformedValue, NotCanonical, WrongFields) as error:
        raise ConfigurationError(path.name, f"is no draft of a deployment ({error}): {_restart_advice(path)}") from None
    if draft.book_hash != _hash(draft.book):
        raise ConfigurationError(
            path.name, f"its address book was changed: put it back as it was to go on, or {_restart_advice(path)}"
        )
    return draft


def write_draft(out: Path, site: DeploymentPlan, nonce: int, book: Network) -> Draft:
    """Writes the draft of a deployment before its first transaction. Raises `ConfigurationError` if it cannot be written."""
    draft = Draft(site.deployer, U64(nonce), transactions_hash(site), book, _hash(book))
    replace_file(path_of(out), encode(draft))
    return draft


def first_nonce(client: Chain, deployer: Address) -> int:
    """Returns the nonce with which a new deployment begins.

    Raises `TryAgain` while a transaction of the account waits for a block. A waiting transaction may be another run's, which
    would take the nonces and thus the addresses of this deployment.
    """
    nonce, pending = client.nonce(deployer), client.nonce(deployer, "pending")
    if pending != nonce:
        waiting = f"{pending - nonce} transactions of {deployer} wait for a block, maybe of another deployment"
        raise TryAgain("chain", f"{waiting}: wait until none does, or use another account; nothing was sent")
    return nonce


def transactions_hash(site: DeploymentPlan) -> Digest:
    """Returns a hash that identifies a deployment: this release, these options, this deployer and its nonces."""
    parts = [(each.contract, each.verb, each.to or "", b"" if each.contract == _DATED else each.data) for each in steps(site)]
    listed = [part if isinstance(part, bytes) else part.encode() for each in parts for part in each]
    return Digest(keccak256(b"".join(keccak256(part) for part in listed)))


def steps_taken(client: Chain, draft: Draft, out: Path, site: DeploymentPlan) -> int:
    """Counts the transactions of a deployment that the chain has already. Raises `ConfigurationError` with advice if the draft
    is of another deployment, or if a contract of the counted transactions is missing or is another one."""
    path = path_of(out)
    if (draft.book.chain_id, draft.deployer) != (client.chain_id, site.deployer) or draft.asked != transactions_hash(site):
        raise ConfigurationError(
            path.name,
            f"was begun by {draft.deployer} on chain {draft.book.chain_id}, with other options or by another build than this: "
            f"give the same to go on, or {_restart_advice(path)}",
        )
    listed = steps(site)
    taken = min(client.nonce(site.deployer) - draft.nonce, len(listed))
    if taken < 0:
        raise ConfigurationError(
            path.name, f"is of another chain, or of blocks that this one has no more: {_restart_advice(path)}"
        )
    _verify_created(client, site, listed[:taken], path)
    verify_options(client, site, {each.contract for each in listed[:taken] if each.to is None})
    return taken


def _verify_created(client: Chain, site: DeploymentPlan, taken: Sequence[DeploymentStep], path: Path) -> None:
    created = [each.contract for each in taken if each.to is None]
    codes = client.codes([site.at[name] for name in created]) if created else []
    missing = next((name for name, code in zip(created, codes, strict=True) if not code), None)
    if missing is not None:
        what = f"{missing} is not at {site.at[missing]}: its transaction failed, or the account sent another in its place"
        raise ConfigurationError(path.name, f"{what}; this deployment cannot go on: {_restart_advice(path)}")


def _hash(book: Network) -> Digest:
    return Digest(keccak256(encode(book)))


def _restart_advice(path: Path) -> str:
    return f"remove {path} to begin a new deployment (what is on the chain of the old one has no power over the new)"
