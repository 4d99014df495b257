"""All randomness of one shard in one ceremony, from one seed that is kept until the ceremony has ended.

A shard that crashed says the same words again, because they are a function of its seed and the log; and no coefficient or nonce
has to be stored. A stream's name holds everything that its user's output depends on: a nonce of a proof is never used twice.
"""

from bytewise.crypto.curve import Rng
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.service.secret import Secret

SEED_BYTES = 32


def stream(seed: Secret, *name: bytes | int) -> Rng:
    """A generator of bytes that depends on the seed and on its name alone."""
    key = digests.labelled(Label.CEREMONY_STREAM, seed.reveal(), *name)
    blocks = 0

    def read(size: int) -> bytes:
        nonlocal blocks
        data = b""
        while len(data) < size:
            data += digests.labelled(Label.CEREMONY_STREAM, key, blocks)
            blocks += 1
        return data[:size]

    return read
