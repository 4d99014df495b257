"""How long a guardian that stops the clock whenever it may keeps stake from leaving, against the long timelock's delay."""

import dataclasses

from bytewise.protocol.address_book import Network
from bytewise.protocol.errors.actors import ChainReverted
from bytewise.protocol.signing import LocalSigner
from chain.deployment import deploy
from chain.deployment.calls import ContractCall, call_of, dry_run
from chain.deployment.params import DAY, DEVNET
from chain.deployment.plan import LEAST_LONG_DELAY_DAYS, LONG_DELAY_DAYS
from chain.sending.transactions import send_all
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import GUARDIAN, founded, signer

STAKER = signer(3)
SLOWEST = dataclasses.replace(DEVNET, times=dataclasses.replace(DEVNET.times, unbond_delay=30 * DAY, max_pause=3 * DAY))
"""The longest way out that the bounds allow, and of disputes that are hardly longer than a pause."""


def test_repeated_pauses_block_stake_for_less_than_the_long_delay(anvil: Anvil) -> None:
    network = founded(anvil, SLOWEST)
    send(anvil, network, STAKER, ContractCall("StakeVault", "deposit", (), 10**18))
    longest = int(anvil.client.call("Params", network.addresses.params, "longestLive", block="latest"))
    send(anvil, network, GUARDIAN, deploy.pause(3 * DAY))
    begun = anvil.client.head().timestamp
    send(anvil, network, STAKER, ContractCall("StakeVault", "requestUnbond", (10**18,)))
    while not gone(anvil, network):
        anvil.pass_time(3 * DAY + longest)
        if not gone(anvil, network):
            send(anvil, network, GUARDIAN, deploy.pause(3 * DAY))
            # As far as the clock stood when this pause began it was not due.
            assert not gone(anvil, network)
    took = anvil.client.head().timestamp - begun
    assert LEAST_LONG_DELAY_DAYS * DAY < took < LONG_DELAY_DAYS * DAY, "the least delay alone does not outlast such a guardian"


def send(anvil: Anvil, network: Network, who: LocalSigner, act: ContractCall) -> None:
    """One transaction."""
    send_all(anvil.client, [call_of(who, network, act)], 60)


def gone(anvil: Anvil, network: Network) -> bool:
    """Whether the stake may leave now."""
    try:
        dry_run(anvil.client, network, STAKER.address, ContractCall("StakeVault", "finishUnbond", ()))
    except ChainReverted:
        return False
    return True
