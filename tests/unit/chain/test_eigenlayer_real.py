"""Stake at EigenLayer's own contracts, from a restaker's deposit to a challenger's credit, where a checkout is named."""

import os
from pathlib import Path

import pytest

from chain.deployment.params import DEVNET
from chain.reads.history import CourtHistory
from tests.fixtures.chain.anvil import running_anvil
from tests.fixtures.chain.devnet import CHALLENGER, STAKE_WEI, Restaking, with_members
from tests.fixtures.chain.eigenlayer_build import VARIABLE
from tests.fixtures.chain.real_eigenlayer import FIRST_BLOCK, RealEigenLayer
from tests.fixtures.chain.restaked_place import OPERATOR, PENALTY, ROUNDING, RestakedOperator


@pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} names no checkout of EigenLayer's contracts")
def test_restaked_ether_taken_by_a_verdict_reaches_its_payees(tmp_path: Path) -> None:
    with running_anvil("--number", str(FIRST_BLOCK)) as anvil:
        eigen = RealEigenLayer(anvil, Path(os.environ[VARIABLE]))
        place = RestakedOperator(anvil, tmp_path, eigen, with_members(anvil, DEVNET, Restaking(eigen.settle, eigen.stake)))
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
