"""What one record after the other shows, each of them signed and in its place: dates that go back, and tickets or grounds that
shards of one build always keep and a liar leaves out.

The chain of records does not say it, and a shard's own start does not ask it: its old records are what they are.
"""

from collections.abc import Iterable, Iterator

from bytewise.protocol.keys.epochs import SignedRelease
from bytewise.protocol.keys.release_log import LAG_S


def out_of_order(entries: Iterable[SignedRelease]) -> Iterator[str]:
    """A line for each record of a log that is dated long before one that it follows, or lacks what one before it has.

    `entries` are the whole log from its first record on.
    """
    newest, at, has_ticket, has_grounds = 0, 0, False, False
    for signed in entries:
        index, date = signed.record.index, signed.record.decided_at
        if date + LAG_S < newest:
            yield f"record {index} is dated {newest - date} s before record {at}"
            newest = 0
        if date >= newest:
            newest, at = date, index
        for what, there, before in (("ticket", signed.right, has_ticket), ("grounds", signed.grounds, has_grounds)):
            if before and there is None:
                yield f"record {index} has no {what}, and a record before it has"
        has_ticket, has_grounds = has_ticket or signed.right is not None, has_grounds or signed.grounds is not None
