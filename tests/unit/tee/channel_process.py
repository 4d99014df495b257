"""One real process at the other end of attested channels: a shard's end over TCP that answers each message with its reverse.

`python -m tests.unit.tee.channel_process FOLDER` says its port in one line and serves one connection after the other.
"""

import os
import socket
import sys
from pathlib import Path

from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.errors.evidence import ChannelBroken
from bytewise.protocol.evidence.policy_updates import first_standing
from bytewise.protocol.units import U64
from bytewise.service.clock import ForwardClock, SystemClock
from bytewise.tee.binding import Terms
from bytewise.tee.channel import Channel, End, accept
from bytewise.tee.policy import load_policy
from bytewise.tee_simulated.quoter import SimulatedQuoter
from tests.unit.kms.memory_chain import CONTRACTS
from tests.unit.tee.bench import CHAIN_ID, ENTRY
from tests.unit.tee.channels import ACCOUNT, ENCLAVE, EPOCH, PATIENCE_S, SHARD


def main(folder: Path) -> None:
    """Serves until killed."""
    standing = first_standing(load_policy(folder / "policy.json", CHAIN_ID, production=False))
    terms = Terms(SHARD, ENCLAVE, CONTRACTS, U64(EPOCH), standing, None)
    quoter = SimulatedQuoter.of_this_program(folder / "platform.key", ENTRY)
    end = End(terms, quoter, ACCOUNT, ForwardClock(SystemClock()), os.urandom)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        while True:
            peer, _ = listening.accept()
            try:
                with accept(peer, end, timeout_s=PATIENCE_S) as channel:
                    answer(channel)
            except BytewiseError as error:
                print(type(error).__name__, flush=True)


def answer(channel: Channel) -> None:
    """Until the peer ends it."""
    while True:
        try:
            message = channel.receive(2**20, timeout_s=PATIENCE_S)
        except ChannelBroken:
            return
        channel.send(message[::-1])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
