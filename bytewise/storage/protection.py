"""Prevents two different votes for one (dispute, round), across crashes and across processes that use one database.

The content of a vote is everything except its salt and quote hash. The first vote is stored with its salt and quote before
anything is signed or sent. For a second vote with the same content the stored vote is returned, so there is only one commitment.
A vote with other content raises `SecondVote`. The rule is that of EIP-3076; design section 10 describes the table.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Row, select

from bytewise.ports import Clock
from bytewise.protocol import digests, encoding
from bytewise.protocol.digests import Label
from bytewise.protocol.errors.actors import ProtectionMissing, SecondVote, StoreCorrupt
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import WrongFields
from bytewise.protocol.records.statements import Vote
from bytewise.protocol.units import ZERO_DIGEST, Address, Blob, Digest, hex0x, unhex
from bytewise.service import metrics
from bytewise.storage.engine import insert_if_new, read_transaction, write_transaction
from bytewise.storage.nonce_lease import NonceLease
from bytewise.storage.tables import ProtectedVoteRow, ReliedRootRow

_FORMAT = "bytewise-protection-1"


class StoredVote(NamedTuple):
    """The one stored vote of a voter in a round, with the quote whose hash is in the vote."""

    vote: Vote
    quote: Blob


class Protection:
    """Database store of the protection table of one voter.

    With a nonce lease, only the process that has the lease may add a vote. Another process gets `LeaseLost`.
    """

    def __init__(self, engine: Engine, clock: Clock, lease: NonceLease | None = None) -> None:
        self._engine = engine
        self._clock = clock
        self._lease = lease

    def sign_once(self, vote: Vote, quote: Blob) -> StoredVote:
        """Stores a vote, and returns the vote that may be committed and revealed.

        If a vote with the same content is stored already, returns the stored vote and not this one. Raises `SecondVote` if the
        stored vote has other content.
        """
        with write_transaction(self._engine) as connection:
            return self._sign_in(connection, vote, quote)

    def known(self, dispute: Digest, round_number: int, voter: Address) -> StoredVote | None:
        """Returns the vote that this voter already made in this round, or None.

        The caller then uses the returned vote and does not compute the answer again.
        """
        with read_transaction(self._engine) as connection:
            row = connection.execute(_query(dispute, round_number, voter)).one_or_none()
        return None if row is None else _stored(row)

    def require(self, dispute: Digest, round_number: int, voter: Address) -> StoredVote:
        """Returns the stored vote of a voter that has a vote in this round on the chain.

        Raises `ProtectionMissing` if the table lacks the vote.
        """
        stored = self.known(dispute, round_number, voter)
        if stored is None:
            metrics.PROTECT_REFUSALS.labels(kind="missing").inc()
            raise ProtectionMissing(hex0x(dispute), round_number)
        return stored

    def rows(self) -> tuple[StoredVote, ...]:
        """Returns all votes, the oldest first."""
        query = select(*ProtectedVoteRow.__table__.columns).order_by(ProtectedVoteRow.created_at, ProtectedVoteRow.dispute)
        with read_transaction(self._engine) as connection:
            return tuple(_stored(row) for row in connection.execute(query))

    def export(self) -> bytes:
        """Returns all votes as one canonical JSON document, for import into another database while this process is stopped."""
        votes = [{"quote": hex0x(s.quote), "vote": encoding.to_json(s.vote)} for s in self.rows()]
        return encoding.encode({"format": _FORMAT, "votes": votes})

    def import_votes(self, document: bytes) -> int:
        """Adds the votes of an export and returns how many votes the export has.

        Raises `SecondVote` and adds none if one of them contradicts a stored vote. Raises a `Fault` if the bytes are no export.
        """
        value = encoding.parse(document)
        if not isinstance(value, dict) or value.get("format") != _FORMAT or not isinstance(value.get("votes"), list):
            raise WrongFields("protection export", ["format", "votes"], [])
        stored = [_imported(item) for item in value["votes"]]
        # All votes are added in one transaction, so a contradiction leaves the table as it was, even one inside the document.
        with write_transaction(self._engine) as connection:
            for vote, quote in stored:
                self._sign_in(connection, vote, quote)
        return len(stored)

    def _sign_in(self, connection: Connection, vote: Vote, quote: Blob) -> StoredVote:
        if self._lease is not None:
            self._lease.require_in(connection)
        digest = _content_digest(vote)
        insert_if_new(
            connection, ProtectedVoteRow, dispute=vote.dispute, round=vote.round, voter=vote.voter, content_digest=digest,
            vote=encoding.encode(vote), quote=quote, created_at=self._clock.now(),
        )  # fmt: skip
        row = connection.execute(_query(vote.dispute, vote.round, vote.voter)).one()
        if row.content_digest != digest:
            metrics.PROTECT_REFUSALS.labels(kind="second_vote").inc()
            raise SecondVote(hex0x(vote.dispute), vote.round, hex0x(row.content_digest))
        return _stored(row)


class ReliedRoots:
    """Database store of the commit roots on which a member relies, with the commitments under each root.

    A commit root stands for the commitments of several members, which then send no commitments of their own to the chain. The
    member stores all commitments under the root before it relies on the root. With them it can make the Merkle path that it needs
    to reveal its vote alone.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def keep(self, dispute: Digest, round_number: int, root: Digest, leaves: Mapping[int, Digest]) -> None:
        """Stores the commit root of a round with its commitments. `leaves` has the commitment of each member by the member's
        first seat.

        If the round already has a stored root, nothing changes.
        """
        value = encoding.encode({str(place): hex0x(leaf) for place, leaf in leaves.items()})
        with write_transaction(self._engine) as connection:
            insert_if_new(connection, ReliedRootRow, dispute=dispute, round=round_number, root=root, leaves=value)

    def known(self, dispute: Digest, round_number: int) -> tuple[Digest, dict[int, Digest]] | None:
        """Returns the root and the commitments of a round, or None if there are none."""
        row = ReliedRootRow
        query = select(row.root, row.leaves).where(row.dispute == dispute, row.round == round_number)
        with read_transaction(self._engine) as connection:
            found = connection.execute(query).one_or_none()
        if found is None:
            return None
        return Digest(found.root), {int(place): Digest(unhex(leaf)) for place, leaf in encoding.parse(found.leaves).items()}


def _imported(item: Any) -> StoredVote:
    if not isinstance(item, dict) or item.keys() != {"quote", "vote"} or not isinstance(item["quote"], str):
        raise WrongFields("protection export", ["quote", "vote"], [])
    return StoredVote(encoding.from_json(Vote, item["vote"]), Blob(unhex(item["quote"])))


def _content_digest(vote: Vote) -> Digest:
    bare = dataclasses.replace(vote, salt=ZERO_DIGEST, quote_hash=ZERO_DIGEST)
    return digests.labelled(Label.PROTECTION, encoding.encode(bare))


def _query(dispute: Digest, round_number: int, voter: Address) -> Any:
    row = ProtectedVoteRow
    return select(*row.__table__.columns).where(row.dispute == dispute, row.round == round_number, row.voter == voter)


def _stored(row: Row[Any]) -> StoredVote:
    try:
        return StoredVote(encoding.decode(Vote, row.vote), Blob(row.quote))
    except Fault as error:
        raise StoreCorrupt("protection", str(error)) from None
