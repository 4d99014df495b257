"""Fence 6: whoever shows a receipt, a vote, a verdict or a log of key releases shows with it what its key epoch is worth."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace

import pytest

from bytewise.protocol.assurance import HARDWARE, SIMULATED, warning
from bytewise.protocol.units import U64
from bytewise_client.network_state import collect
from tests.fixtures.chain.devnet import OPERATORS, POLICY, SHARDS, batch, epoch_document, fee_wei, reader, signer
from tests.fixtures.cli.surfaces import SURFACES, Answered, Judged, Kind, Released
from tests.fixtures.kms.vouched_epochs import key_in_force

TOLD = re.compile(rf"assurance\W+simulated|{warning(SIMULATED)}")

Shown = Answered | Judged | Released
Stage = Callable[[Kind], Shown]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The network of a kind, which is begun when something is first looked at in it."""
    with ExitStack() as stack:
        begun: dict[Kind, Shown] = {}

        def of(kind: Kind) -> Shown:
            if kind not in begun:
                network: AbstractContextManager[Shown] = kind.begun(tmp_path_factory.mktemp(kind.__name__))
                begun[kind] = stack.enter_context(network)
            return begun[kind]

        yield of


@pytest.mark.e2e
@pytest.mark.parametrize("surface", SURFACES)
def test_every_surface_labels_a_simulated_key_epoch(stage: Stage, surface: str) -> None:
    kind, shown = SURFACES[surface]
    assert TOLD.search(shown(stage(kind)))


@pytest.mark.e2e
def test_receipt_keeps_its_epoch_label_when_the_next_epoch_is_hardware(stage: Stage) -> None:
    """No path upgrades an epoch's label: batch, audits, dispute and votes of before stay simulated."""
    judged = stage(Judged)
    assert isinstance(judged, Judged)
    court, network, made = judged.court, judged.court.network, epoch_document(2)
    document = replace(made, record=replace(made.record, assurance=HARDWARE))
    book = key_in_force(court.anvil.client, network, signer(0), document, POLICY.digest, SHARDS)
    later = batch(network, OPERATORS[1], 1, 1, court.anvil.client.head().timestamp)
    court.of(OPERATORS[1]).anchor(replace(later.header, key_epoch=U64(2)), fee_wei(court.anvil, network, 1))
    court.pump()
    state = collect(reader(court.anvil, book))
    assert (state["key_epoch"], state["assurance"]) == (2, HARDWARE)
    assert [(each["key_epoch"], each["assurance"]) for each in state["batches"]] == [(1, SIMULATED), (2, HARDWARE)]
    assert {each["assurance"] for each in (*state["receipts"], *state["disputes"])} == {SIMULATED}
    assert len(state["receipts"]) == 2, "one is audited, one is disputed"
    # Whoever looks at the table is still warned, for there is something simulated in it.
    assert warning(SIMULATED) in judged.status()


def test_hardware_epoch_and_no_epoch_show_no_warning() -> None:
    assert (warning(HARDWARE), warning("")) == ("", "")
    assert warning(SIMULATED).startswith("SIMULATED: ") and warning("else").startswith("ELSE: ")
