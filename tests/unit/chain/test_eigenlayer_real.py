"""Stake at EigenLayer's own contracts, from a restaker's deposit to a challenger's credit, where a checkout is named."""

import os
from pathlib import Path
from typing import Any

import pytest

from bytewise.protocol import digests
from bytewise.protocol.address_book import Network
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.tally import key_of
from bytewise.protocol.records.statements import Outcome, Verdict
from bytewise.protocol.signing import LocalSigner
from chain.deployment.params import DEVNET
from chain.reads.history import CourtHistory
from tests.anvil import Anvil, running_anvil
from tests.court_session import TRUE, Court
from tests.devnet import CHALLENGER, OPERATORS, STAKE_WEI, Restaking, mine, with_members
from tests.eigenlayer_build import VARIABLE
from tests.real_eigenlayer import FIRST_BLOCK, RESTAKER, RealEigenLayer

OPERATOR, PENALTY = OPERATORS[0], DEVNET.money.slash_amount
ROUNDING = 100
"""Wei that shares of a strategy and parts of a magnitude may lose."""


class Place(Court):
    """A court whose stake is at EigenLayer's own contracts."""

    def __init__(self, anvil: Anvil, folder: Path, eigen: RealEigenLayer, network: Network) -> None:
        self.eigen = eigen
        super().__init__(anvil, folder, network=network)

    def standing(self) -> dict[str, int]:
        """Whose stake the operator answers with, and where it lies."""
        eigen, source = self.eigen, self.network.addresses.stake_vault
        return {
            "recorded": self.reader.holdings(OPERATOR.address, self.reader.head()).stake_wei,
            "delegated": eigen.operator_shares(OPERATOR.address),
            "of its own": eigen.withdrawable(OPERATOR.address),
            "of the restaker": eigen.withdrawable(RESTAKER.address),
            "strategy": eigen.tokens(eigen.at["StrategyBase"]),
            "source": eigen.tokens(source),
        }

    def credit(self, who: LocalSigner) -> int:
        return self.reader.holdings(who.address, self.reader.head()).credit_wei

    def of_source(self, name: str) -> list[dict[str, Any]]:
        """What the stake source says that happened."""
        where = ("EigenLayerStake", self.network.addresses.stake_vault)
        logs = self.anvil.client.logs(*where, [name], int(self.network.deploy_block), self.reader.head())
        return [dict(each.values) for each in logs]

    def overturned(self) -> None:
        """A dispute that the operator loses to a challenger who knew better, until all seats are paid."""
        known = self.open(0, key_of(Outcome.EXECUTED, 0, digests.out_hash(*TRUE)))
        case = self.until(Phase.COMMIT)
        votes = [self.vote(case, each.voter, TRUE) for each in case.members]
        self.commit(votes)
        mine(self.anvil, 2)
        self.reveal(votes)
        assert self.until(Phase.FINAL, known).verdict is Verdict.OVERTURNED
        self.settled()


@pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} names no checkout of EigenLayer's contracts")
def test_restaked_ether_that_a_verdict_takes_reaches_whom_the_court_pays(tmp_path: Path) -> None:
    with running_anvil("--number", str(FIRST_BLOCK)) as anvil:
        eigen = RealEigenLayer(anvil, Path(os.environ[VARIABLE]))
        place = Place(anvil, tmp_path, eigen, with_members(anvil, DEVNET, Restaking(eigen.settle, eigen.stake)))
        half = STAKE_WEI // 2
        before = place.standing()
        wanted = [STAKE_WEI, STAKE_WEI, half, half, 7 * STAKE_WEI, 0]
        assert list(before.values()) == pytest.approx(wanted, abs=ROUNDING)
        place.overturned()
        lost = {name: before[name] - now for name, now in place.standing().items()}
        wanted = [PENALTY, PENALTY, PENALTY // 2, PENALTY // 2, PENALTY, 0]
        assert list(lost.values()) == pytest.approx(wanted, abs=ROUNDING), "operator and restaker lose alike, by their stakes"
        (slash,), (arrived,) = place.of_source("Slashed"), place.of_source("Collected")
        assert (slash["account"], slash["ref"], slash["want"]) == (OPERATOR.address, place.dispute, PENALTY)
        assert (arrived["ref"], arrived["amount"]) == (place.dispute, slash["taken"])
        assert lost["strategy"] >= slash["taken"] == pytest.approx(PENALTY, abs=ROUNDING)
        assert not place.of_source("SlashDeferred") and not place.of_source("PaymentDeferred"), "EigenLayer refused nothing"
        (ending,) = CourtHistory(place.reader).endings(int(place.network.deploy_block), place.reader.head())
        assert ending.slashed == slash["taken"] and place.case().paid
        share = slash["taken"] * DEVNET.shares.alpha_bps // 10_000
        assert place.credit(CHALLENGER) == ending.to_challenger == DEVNET.required_bond + share and ending.to_verifiers > 0
        place.everything_is_accounted_for()
