"""What an operator believes of its own standing, read from a real chain."""

import dataclasses

from chain.reader import DocketReader
from serving.chain_view import OperatorStanding
from tests.anvil import Anvil, running_anvil
from tests.devnet import ENVIRONMENT, MODEL, deployed, signer


def _standing(anvil: Anvil, **changes: object) -> OperatorStanding:
    network = dataclasses.replace(deployed(anvil), **changes)  # type: ignore[arg-type]
    return OperatorStanding(DocketReader(anvil.client, network), signer(1).address, ENVIRONMENT.digest, MODEL)


def test_an_operator_whose_book_lacks_the_open_epoch_serves_nobody_and_stays_alive() -> None:
    with running_anvil() as anvil:
        standing = _standing(anvil, epochs=()).read()
    assert standing.closed_because == "no key epoch is open" and (standing.registered, standing.last_seq) == (True, 0)


def test_an_operator_with_a_whole_book_may_serve() -> None:
    with running_anvil() as anvil:
        standing = _standing(anvil).read()
    assert standing.closed_because is None and standing.epoch is not None and standing.epoch.epoch == 1
