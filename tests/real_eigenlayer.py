"""EigenLayer's own contracts on a test's chain, and stake there: what its governance, a service, operators and a restaker do."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bytewise.protocol.address_book import Network
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import ZERO_ADDRESS, ZERO_DIGEST, Address
from chain.client.artifacts import Interface, interface
from chain.deployment.deploy import created_address
from chain.deployment.plan import Restaked, Site
from chain.sending.keys import devnet_signer
from chain.sending.transactions import TX_GAS_CAP, Call, send_all
from tests.anvil import CHAIN_ID, Anvil
from tests.devnet import OPERATORS, STAKE_WEI
from tests.eigenlayer_build import eigenlayer
from tests.restaked import MAX_AGE, compiled

GOVERNANCE, AVS, RESTAKER = (devnet_signer(CHAIN_ID, index) for index in (19, 18, 17))
DELAY_BLOCKS, CONFIGURATION_BLOCKS = 100_800, 126_000
"""Of withdrawals and deallocations, and of settings of an operator, on the main chain."""
FIRST_BLOCK = 200_000
"""EigenLayer looks as many blocks back as its delays are long: a younger chain has none."""
LONGEST_S = (DELAY_BLOCKS - MAX_AGE) * 12
"""The longest dispute that those delays cover."""
SET_ID, WHOLE = 7, 10**18
_PROXIED = ("AllocationManager", "DelegationManager", "StrategyManager", "EigenPodManager", "StrategyBase")


class RealEigenLayer:
    """EigenLayer as it is deployed: each core contract behind a proxy, one strategy of wrapped ether."""

    def __init__(self, anvil: Anvil, checkout: Path) -> None:
        self._client, self._built = anvil.client, eigenlayer(checkout)
        first = anvil.client.nonce(GOVERNANCE.address)
        made = ("WrappedEther", "PauserRegistry", "PermissionController", "OpenRegistrar", "AllocationManagerView")
        order = (*made, *(f"{name} code" for name in _PROXIED), *_PROXIED)
        self.at = {name: created_address(GOVERNANCE.address, first + place) for place, name in enumerate(order)}
        code = self._creations()
        self._send(*(Call(GOVERNANCE, None, code[name], 0, TX_GAS_CAP) for name in order))
        self._send(self._call(GOVERNANCE, "StrategyManager", "addStrategiesToDepositWhitelist", [self.at["StrategyBase"]]))

    def settle(self, _anvil: Anvil, site: Site) -> Site:
        """The site with its stake here; a service makes the operator set, for its stake source to slash and to be paid."""
        self.register_service()
        self.create_set(SET_ID, site.at["StakeVault"], site.at["StakeVault"])
        at, strategy = self.at["AllocationManager"], self.at["StrategyBase"]
        return replace(site, restaked=Restaked(at, strategy, AVS.address, SET_ID, MAX_AGE, LONGEST_S))

    def register_service(self) -> None:
        """The service is one that EigenLayer knows."""
        self._send(
            self._call(AVS, "AllocationManager", "updateAVSMetadataURI", AVS.address, "https://service.example"),
            self._call(AVS, "AllocationManager", "setAVSRegistrar", AVS.address, self.at["OpenRegistrar"]),
        )

    def create_set(self, number: int, slasher: Address, recipient: Address, strategies: Sequence[Address] | None = None) -> None:
        """The service makes an operator set, of the one strategy unless others are named."""
        chosen = [self.at["StrategyBase"]] if strategies is None else list(strategies)
        named = [(number, chosen, slasher)]
        created = self._naming_slasher().call("createRedistributingOperatorSets", AVS.address, named, [recipient])
        self._send(Call(AVS, self.at["AllocationManager"], created, 0, TX_GAS_CAP))

    def name_slasher(self, number: int, slasher: Address) -> None:
        """The service names another slasher of a set; EigenLayer lets that wait."""
        self._send(self._call(AVS, "AllocationManager", "updateSlasher", (AVS.address, number), slasher))

    def add_strategy(self, number: int, strategy: Address) -> None:
        """The service lets a set slash another strategy."""
        self._send(self._call(AVS, "AllocationManager", "addStrategiesToOperatorSet", AVS.address, number, [strategy]))

    def other_token(self) -> Address:
        """A token that is no wrapped ether."""
        at = created_address(GOVERNANCE.address, self._client.nonce(GOVERNANCE.address))
        self._send(Call(GOVERNANCE, None, interface("GovernanceToken").creation(GOVERNANCE.address, 1), 0, TX_GAS_CAP))
        return at

    def second_strategy(self, token: Address) -> Address:
        """EigenLayer's governance deploys a strategy of another token."""
        code, proxy = self._built["StrategyBase"].call("initialize", token), self._built["ERC1967Proxy"]
        at = created_address(GOVERNANCE.address, self._client.nonce(GOVERNANCE.address))
        self._send(Call(GOVERNANCE, None, proxy.creation(self.at["StrategyBase code"], code), 0, TX_GAS_CAP))
        return at

    def stake(self, _anvil: Anvil, _network: Network, members: Sequence[LocalSigner]) -> None:
        """All are operators in the set, with all of `STAKE_WEI` allocated: half of the first operator's is a restaker's."""
        first = OPERATORS[0]
        self._deposit(first, STAKE_WEI // 2)
        self._deposit(RESTAKER, STAKE_WEI // 2)
        for each in members:
            if each != first:
                self._deposit(each, STAKE_WEI)
            self._become_operator(each)
        self._send(self._call(RESTAKER, "DelegationManager", "delegateTo", first.address, (b"", 0), ZERO_DIGEST))

    def view(self, name: str, function: str, *arguments: Any) -> Any:
        """What one of the contracts says now."""
        code = self._interface(name)
        said = self._client.rpc("eth_call", {"to": self.at[name], "data": "0x" + code.call(function, *arguments).hex()}, "latest")
        return code.result(function, bytes.fromhex(said[2:]))

    def operator_shares(self, who: Address) -> int:
        """Of the strategy, delegated to an operator."""
        return int(self.view("DelegationManager", "operatorShares", who, self.at["StrategyBase"]))

    def withdrawable(self, who: Address) -> int:
        """Shares that a staker could withdraw now."""
        said = self.view("DelegationManager", "getWithdrawableShares", who, [self.at["StrategyBase"]])
        return int(said["withdrawableShares"][0])

    def tokens(self, who: Address) -> int:
        """Wrapped ether of an account."""
        return int(self.view("WrappedEther", "balanceOf", who))

    def _deposit(self, who: LocalSigner, wei: int) -> None:
        token, manager, strategy = (self.at[name] for name in ("WrappedEther", "StrategyManager", "StrategyBase"))
        self._send(
            self._call(who, "WrappedEther", "deposit", wei=wei),
            self._call(who, "WrappedEther", "approve", manager, wei),
            self._call(who, "StrategyManager", "depositIntoStrategy", strategy, token, wei),
        )

    def _become_operator(self, who: LocalSigner) -> None:
        allocation = ((AVS.address, SET_ID), [self.at["StrategyBase"]], [WHOLE])
        self._send(
            self._call(who, "DelegationManager", "registerAsOperator", ZERO_ADDRESS, 0, ""),
            self._call(who, "AllocationManager", "modifyAllocations", who.address, [allocation]),
            self._call(who, "AllocationManager", "registerForOperatorSets", who.address, (AVS.address, [SET_ID], b"")),
        )

    def _creations(self) -> dict[str, bytes]:
        """Creation code of everything. A proxy is initialised as it is made: whoever comes first may do that."""
        at, nobody, built = self.at, ZERO_ADDRESS, self._built
        pausers, permissions, delegation = at["PauserRegistry"], at["PermissionController"], at["DelegationManager"]
        allocations, strategies, pods = at["AllocationManager"], at["StrategyManager"], at["EigenPodManager"]
        lengths = (DELAY_BLOCKS, CONFIGURATION_BLOCKS)
        arguments: dict[str, tuple[Any, ...]] = {
            "WrappedEther": (),
            "OpenRegistrar": (),
            "PauserRegistry": ([GOVERNANCE.address], GOVERNANCE.address),
            "PermissionController": (),
            "AllocationManagerView": (delegation, nobody, *lengths),
            "AllocationManager code": (at["AllocationManagerView"], delegation, nobody, pausers, permissions, *lengths),
            "DelegationManager code": (strategies, pods, allocations, pausers, permissions, DELAY_BLOCKS, "1.9.0"),
            "StrategyManager code": (allocations, delegation, pausers, "1.9.0"),
            "EigenPodManager code": (nobody, nobody, delegation, pausers),
            "StrategyBase code": (strategies, pausers),
        }
        first: dict[str, tuple[Any, ...]] = {
            "AllocationManager": (0,),
            "DelegationManager": (0,),
            "StrategyManager": (GOVERNANCE.address, GOVERNANCE.address, 0),
            "EigenPodManager": (GOVERNANCE.address, 0),
            "StrategyBase": (at["WrappedEther"],),
        }
        plain = {name: self._interface(name.split()[0]).creation(*given) for name, given in arguments.items()}
        proxy = built["ERC1967Proxy"]
        return plain | {
            name: proxy.creation(at[f"{name} code"], built[name].call("initialize", *given)) for name, given in first.items()
        }

    def _naming_slasher(self) -> Interface:
        """Of the two functions of this name, the one in which a set names its slasher."""
        name = "createRedistributingOperatorSets"
        both = [entry for entry in self._built["AllocationManager"].abi if entry.get("name") == name]
        (entry,) = (entry for entry in both if any(part["name"] == "slasher" for part in entry["inputs"][1]["components"]))
        return Interface("AllocationManager", {"bytecode": "0x", "abi": [entry]})

    def _interface(self, name: str) -> Interface:
        return self._built[name] if name in self._built else compiled(name)

    def _call(self, who: LocalSigner, name: str, function: str, *arguments: Any, wei: int = 0) -> Call:
        return Call(who, self.at[name], self._interface(name).call(function, *arguments), wei, 2_000_000)

    def _send(self, *calls: Call) -> None:
        for call in calls:
            send_all(self._client, [call], 60)
