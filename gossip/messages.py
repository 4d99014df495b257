"""Messages on gossip. There are three topics. Each message is a canonical JSON object of at most 4 KiB.

A message is `{"body": {...}, "chain": "31337", "epoch": 1}`. The gossip process checks chain and epoch before it relays a
message, so that a message of another network or of an old key epoch does not spread. It does not check the statements in a body.
Duty processes check them.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

HINT = "hint"
"""Topic on which auditors publish the hints of their light audits."""
ROOT = "root"
"""Topic of the parts of a verdict certificate that members exchange: commitments, opened votes, BLS signatures."""
HAVE = "have"
"""Topic on which a member states that it has the bytes of an envelope and gives them to other members."""
TOPICS = (HINT, ROOT, HAVE)

MAX_MESSAGE_BYTES = 4096
"""Size of the largest message, in bytes. A message with an opened vote has about 900 bytes, one with a BLS signature 1,000."""
MAX_BRACKETS = 64
"""Most opening brackets and braces in a message. The limit bounds the cost of parsing."""
DIGEST_CHARS = 66
"""Length of a digest as text: `0x` and 64 hexadecimal digits."""
_U16 = re.compile("0|[1-9][0-9]{0,4}")


class GossipRefused(Exception):
    """Raised when a message or a call is refused. `reason` is one word for the metric, `detail` one line for the log."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class GossipMessage:
    """A parsed message."""

    chain: str
    """Chain id as decimal text."""
    epoch: int
    """Number of the key epoch that was active when the message was sent."""
    body: dict[str, Any]
    """The record that the message carries. Only duty processes check it."""

    @property
    def dispute(self) -> tuple[str, int] | None:
        """The dispute id and the round that the body names, or None if it does not name both. A valid id is a digest, and a
        valid round is a 16-bit number as decimal text."""
        dispute, number = self.body.get("dispute"), self.body.get("round")
        if not is_digest(dispute) or not isinstance(number, str) or not _U16.fullmatch(number) or int(number) >= 2**16:
            return None
        return str(dispute), int(number)


def topic_name(chain: str, topic: str) -> str:
    """Returns the full name of a topic: `/bytewise/1/CHAIN/TOPIC`. `chain` is the chain id as decimal text."""
    return f"/bytewise/1/{chain}/{topic}"


def canonical(value: object) -> bytes:
    """Encodes data without fractions as canonical JSON, as RFC 8785 defines it: sorted members, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def write_message(chain: str, epoch: int, body: dict[str, Any]) -> bytes:
    """Encodes a message as bytes. Raises `GossipRefused` if it has more than `MAX_MESSAGE_BYTES`."""
    data = canonical({"body": body, "chain": chain, "epoch": epoch})
    if len(data) > MAX_MESSAGE_BYTES:
        raise GossipRefused("too_large", f"{len(data)} bytes, at most {MAX_MESSAGE_BYTES}")
    return data


def read_message(data: bytes) -> GossipMessage:
    """Parses the bytes of a message. Raises `GossipRefused` if they are too large or are not the canonical JSON of a message. The
    size and the number of brackets are checked before parsing, so that a hostile message costs little."""
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
    """Returns whether a value is a digest as text: `0x` and 64 lower-case hexadecimal digits."""
    return isinstance(value, str) and len(value) == DIGEST_CHARS and value.startswith("0x") and _is_hex(value[2:])


def _is_hex(text: str) -> bool:
    return all(each in "0123456789abcdef" for each in text)


def _refuse(text: str) -> Any:
    raise ValueError(text)
