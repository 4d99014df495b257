"""One real shard process over a chain of one block that the test wrote; run by `test_process`."""

import sys
from dataclasses import replace
from pathlib import Path

from bytewise.protocol.decisions.snapshot import Case
from bytewise.protocol.encoding import decode
from bytewise.service.clock import SystemClock
from bytewise.service.settings import load_settings
from kms.__main__ import _simulator
from kms.settings import ShardSettings
from kms.shard.service import serve_shard
from kms.storage import keyring
from tests.unit.kms.memory_chain import CONTRACTS, MemoryChain

if __name__ == "__main__":
    settings = load_settings(ShardSettings, Path(sys.argv[1]))
    document = keyring.load_document(settings.epoch_file)
    dispute = decode(Case, settings.network_file.read_bytes())
    from bytewise.tee.policy import load_policy

    chain = MemoryChain(document, load_policy(settings.policy_file, 31337, production=False).digest)
    # No block is dated by far after the machine's clock, by which this process serves.
    chain.facts = replace(chain.facts, timestamp=SystemClock().now())
    chain.disputes[dispute.id] = dispute
    sys.exit(serve_shard(settings, CONTRACTS, chain, _simulator))
