"""What the guardian and the curator may do at once (`Charter`); key epochs from a ceremony are in `chain.acts.epochs`.

Their holders are multisignatures: an act is made here and signed wherever its holder signs.
"""

from bytewise.protocol.units import Address, Digest
from chain.deployment.calls import Act

# --- guardian ---


def pause(seconds: int) -> Act:
    """Stops the protocol clock, for at most `maxPause` and again only when the longest dispute has passed since."""
    return Act("Guardian", "pause", (seconds,))


def unpause() -> Act:
    """Ends a pause early."""
    return Act("Guardian", "unpause")


def refund(court: Address, dispute: Digest) -> Act:
    """Gives everybody its own back in a dispute that is decided and not ended."""
    return Act("Guardian", "refund", (court, dispute))


def compromise_epoch(epoch: int) -> Act:
    """Ends a key epoch that leaked: what was sealed to it must be taken as read."""
    return Act("KeyEpochs", "compromise", (epoch,))


# --- curator ---


def add_pool(pool: Digest, tree: Address) -> Act:
    """Lets verifiers join a pool, which is weighed by its own tree; there are 128 at most, and none goes."""
    return Act("Registry", "addPool", (pool, tree))


def set_measurement(measurement: Digest, allowed: bool) -> Act:
    """Allows what an enclave runs, or forbids it; who runs it is weighed again by `Registry.refresh`."""
    return Act("Registry", "setMeasurement", (measurement, allowed))


def set_policy(digest: Digest, serial: int, document: bytes) -> Act:
    """Puts an appraisal policy in force; its serial is above the one before."""
    return Act("Registry", "setPolicy", (digest, serial, document))


def propose_item(digest: Digest, pool: Digest, vectors: Digest, document: bytes) -> Act:
    """Proposes an environment with its pool, or a model (pool zero). Anybody may; over a running proposal the curator."""
    return Act("Registry", "propose", (digest, pool, vectors, document))


def activate_item(digest: Digest) -> Act:
    """Puts an environment or model in force that was certified, or opens one again that was closed."""
    return Act("Registry", "activate", (digest,))


def close_item(digest: Digest) -> Act:
    """Takes no more batches for an environment or model; what is anchored stays."""
    return Act("Registry", "close", (digest,))


def readmit_operator(who: Address) -> Act:
    """Takes batches of an operator again that too many draws suspended."""
    return Act("Registry", "readmit", (who,))


def drain_epoch(epoch: int) -> Act:
    """Has nothing new sealed to a key epoch; its shards answer until its retention is over."""
    return Act("KeyEpochs", "drain", (epoch,))


def reset_breaker(environment: Digest) -> Act:
    """Lets convictions in an environment go on after the breaker held them."""
    return Act("Breaker", "resetBreaker", (environment,))
