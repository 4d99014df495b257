"""What a shard reads of the chain for one release, all of it at one block."""

from typing import NamedTuple

from bytewise.protocol.decisions.snapshot import Case, Docket
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.keys.epochs import EpochOnChain


class ReleaseView(NamedTuple):
    """The network as one ticket needs it."""

    block: int
    """Number of the block."""
    docket: Docket
    """Of the ticket's voter: protocol clock, policy and the voter's roles, but no dispute."""
    key: EpochOnChain
    """The ticket's key epoch, whether or not there is one."""
    record: EpochRecord | None
    """That epoch with its shards; None if there is none."""
    case: Case | None
    """The ticket's dispute; None if it names none, or one that does not exist."""
