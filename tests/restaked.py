"""EigenLayer on a test's chain, and stake there: the fake of its documented behaviour (`chain/contracts/test`)."""

import functools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bytewise.protocol.address_book import Network
from bytewise.protocol.units import Address
from chain.client.artifacts import Interface
from chain.deployment.deploy import created_address
from chain.deployment.plan import Restaked, Site
from chain.sending.keys import devnet_signer
from chain.sending.transactions import Call, send_all
from tests.anvil import CHAIN_ID, Anvil

ABI = Path(__file__).parent / "abi"
MAX_AGE = 600
"""Blocks for which a record of stake counts: more than a dispute of a test takes."""
LONGEST_S = 30 * 86_400
"""A dispute and its pause."""
_DELAY_BLOCKS = 10**6
_SET_ID, _WHOLE = 7, 10**18
"""As the fake has them."""
_GAS = 5_000_000


@functools.cache
def compiled(name: str) -> Interface:
    """What `chain/contracts/test` has beside the contracts; `export_abi.py` writes it."""
    return Interface(name, json.loads((ABI / f"{name}.json").read_text()))


class EigenLayer:
    """What its governance, its operators and their stakers do. All of them are one account here, which nothing else uses."""

    def __init__(self, anvil: Anvil, at: Address) -> None:
        self._client, self._signer = anvil.client, devnet_signer(CHAIN_ID, 19)
        self.at = at

    @classmethod
    def of(cls, anvil: Anvil, network: Network) -> "EigenLayer":
        """Where a network has its stake."""
        return cls(anvil, anvil.client.call("EigenLayerStake", network.addresses.stake_vault, "ALLOCATIONS", block="latest"))

    @property
    def token(self) -> Address:
        """Wrapped ether."""
        raw = self._client.rpc(
            "eth_call", {"to": self.at, "data": "0x" + compiled("FakeEigenLayer").call("TOKEN").hex()}, "latest"
        )
        return Address("0x" + raw[-40:])

    def delegate(self, accounts: Sequence[Address], wei: int) -> None:
        """So much is staked with each of them, allocated to the set, in which they are."""
        self.send(
            *(self._call("stake", each, value_wei=wei) for each in accounts),
            *(self._call("allocate", each, _WHOLE) for each in accounts),
            *(self._call("register", each, True) for each in accounts),
        )

    def do(self, function: str, *arguments: Any, value_wei: int = 0) -> None:
        """One call of the fake."""
        self.send(self._call(function, *arguments, value_wei=value_wei))

    def give(self, to: Address, wei: int) -> None:
        """Somebody sends wrapped ether."""
        ether, token = compiled("WrappedEther"), self.token
        self.send(
            Call(self._signer, token, ether.call("deposit"), wei, _GAS),
            Call(self._signer, token, ether.call("transfer", to, wei), 0, _GAS),
        )

    def send(self, *calls: Call) -> None:
        """All of it, in order."""
        send_all(self._client, calls, 60)

    def _call(self, function: str, *arguments: Any, value_wei: int = 0) -> Call:
        return Call(self._signer, self.at, compiled("FakeEigenLayer").call(function, *arguments), value_wei, _GAS)


def restaked(anvil: Anvil, site: Site) -> Site:
    """The site with its stake at EigenLayer, which is deployed, and names the stake source as slasher and recipient."""
    who = devnet_signer(CHAIN_ID, 19)
    first = anvil.client.nonce(who.address)
    token, at = created_address(who.address, first), created_address(who.address, first + 1)
    eigen = EigenLayer(anvil, at)
    eigen.send(
        Call(who, None, compiled("WrappedEther").creation(), 0, _GAS),
        Call(who, None, compiled("FakeEigenLayer").creation(token, _DELAY_BLOCKS, _DELAY_BLOCKS), 0, _GAS),
    )
    eigen.do("create", site.at["StakeVault"], site.at["StakeVault"])
    return replace(site, restaked=Restaked(at, at, at, _SET_ID, MAX_AGE, LONGEST_S))
