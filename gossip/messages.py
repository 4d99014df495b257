"""Messages on gossip: three topics, each message a canonical JSON object of at most 4 KiB.

A message is `{"body": {...}, "chain": "31337", "epoch": 1}`. Chain and epoch are checked before the body is looked at, so that a
message of another network or of an old committee goes no further. What a body says is checked by duty processes, not here.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

HINT = "hint"
"""Topic of findings of auditors."""
ROOT = "root"
"""Topic of what members collect for a verdict certificate: commitments, opened votes, BLS signatures."""
HAVE = "have"
"""Topic of statements that a member has the bytes of an envelope."""
TOPICS = (HINT, ROOT, HAVE)

MAX_MESSAGE_BYTES = 4096
"""Largest message. An opened vote has about 900 bytes, a BLS signature 1,000."""
MAX_BRACKETS = 64
"""Most brackets in a message, which bounds what parsing it costs."""
DIGEST_CHARS = 66
"""Characters of a digest: 0x and 64 hexadecimal ones."""
_U16 = re.compile("0|[1-9][0-9]{0,4}")


class GossipRefused(Exception):
    """A message or a call is refused. `reason` is a word for the metric, `detail` a line for the log."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class GossipMessage:
    """A parsed message."""

    chain: str
    """Chain id, decimal."""
    epoch: int
    """Key epoch that was active when it was sent."""
    body: dict[str, Any]
    """The record, for the duty process."""

    @property
    def dispute(self) -> tuple[str, int] | None:
        """Dispute and round of a body that names both, as records write them: a digest, and a 16-bit number as decimal text."""
        dispute, number = self.body.get("dispute"), self.body.get("round")
        if not is_digest(dispute) or not isinstance(number, str) or not _U16.fullmatch(number) or int(number) >= 2**16:
            return None
        return str(dispute), int(number)


def topic_name(chain: str, topic: str) -> str:
    """Full name of a topic: `/bytewise/1/CHAIN/TOPIC`."""
    return f"/bytewise/1/{chain}/{topic}"


def canonical(value: object) -> bytes:
    """Canonical JSON of plain data without fractions: sorted members, no spaces, UTF-8 (RFC 8785 for such data)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def write_message(chain: str, epoch: int, body: dict[str, Any]) -> bytes:
    """Bytes of a message. `GossipRefused` if they are too many."""
    data = canonical({"body": body, "chain": chain, "epoch": epoch})
    if len(data) > MAX_MESSAGE_BYTES:
        raise GossipRefused("too_large", f"{len(data)} bytes, at most {MAX_MESSAGE_BYTES}")
    return data


def read_message(data: bytes) -> GossipMessage:
    """The message of canonical bytes. `GossipRefused` otherwise; size and brackets are counted before anything is parsed."""
    if len(data) > MAX_MESSAGE_BYTES:
        raise GossipRefused("too_large", f"{len(data)} bytes, at most {MAX_MESSAGE_BYTES}")
    if data.count(b"{") + data.count(b"[") > MAX_BRACKETS:
        raise GossipRefused("malformed", f"more than {MAX_BRACKETS} brackets")
    try:
        value = json.loads(data, parse_float=_refuse, parse_constant=_refuse)
        if canonical(value) != data:
            raise GossipRefused("malformed", "is not canonical JSON")
    except (ValueError, RecursionError) as error:
        raise GossipRefused("malformed", f"is no JSON: {type(error).__name__}") from None
    if not isinstance(value, dict) or value.keys() != {"body", "chain", "epoch"}:
        raise GossipRefused("malformed", "has other members than body, chain and epoch")
    body, chain, epoch = value["body"], value["chain"], value["epoch"]
    if not isinstance(body, dict) or not isinstance(chain, str) or isinstance(epoch, bool) or not isinstance(epoch, int):
        raise GossipRefused("malformed", "body, chain or epoch has another type")
    return GossipMessage(chain, epoch, body)


def is_digest(value: object) -> bool:
    """Whether a value is written as a digest."""
    return isinstance(value, str) and len(value) == DIGEST_CHARS and value.startswith("0x") and _is_hex(value[2:])


def _is_hex(text: str) -> bool:
    return all(each in "0123456789abcdef" for each in text)


def _refuse(text: str) -> Any:
    raise ValueError(text)
