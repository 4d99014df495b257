"""What shards did not prove is put in force only by who names them: `bytewise key open` and `rotate --without`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ConfigurationError, SharesUnproven
from bytewise.protocol.keys.ceremony import CeremonyPlan, sign_plan
from bytewise.protocol.keys.epochs import EpochDocument
from bytewise.protocol.units import U256
from bytewise.service.exit_codes import Exit
from bytewise.storage.migrations.migrate import migrate
from chain.sending.keys import save_signer
from cli.key.ceremony import put_in_force
from kms.ceremony.coordinator import epoch_document, unproven_shares, verify_shares_proven
from kms.ceremony.state import CeremonyPhase, CeremonyState
from kms.storage import keyring
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import reader
from tests.fixtures.cli.key_site import CURATOR, KeySite
from tests.fixtures.kms.ceremonies import COORDINATOR, CeremonyParties, generated, party, plan_for, seat
from tests.fixtures.kms.ceremony_runs import PHASE_S, numbered, on_chain, run, shares_make_the_key
from tests.fixtures.kms.dkg_fixture import CHANNEL, CeremonyShard, Turns, ceremony_shards, coordinator_of, plan
from tests.fixtures.kms.lying_shards import wrong_partial

EPOCH = 2


class Ceremonies:
    """Three shards in folders, a coordinator, and the settings that `bytewise key` reads of each ceremony."""

    def __init__(self, site: KeySite) -> None:
        self.site, self.folder = site, site.folder / "next"
        self.shards, self.chain = ceremony_shards(self.folder, 3)
        for each in self.shards:
            each.key_epochs = site.network.addresses.key_epochs
            (each.folder / "entry.json").write_bytes(encode(keyring.shard_entry(each.folder, each.url, CHANNEL)))
        save_signer(site.folder / "coordinator.key", COORDINATOR)
        migrate(f"sqlite:///{self.folder / 'coordinator.sqlite'}")

    def plan(self, dealt: EpochDocument | None = None) -> CeremonyPlan:
        """Of a new key, or of the shares of this one."""
        if dealt is None:
            agreed = plan(self.shards, 2, 2, epoch=EPOCH)
        else:
            source = on_chain(self.chain, self.made)
            agreed = plan(self.shards, 2, 2, dealers=numbered(self.shards), source=source, epoch=EPOCH)
        return replace(agreed, key_epochs=self.site.network.addresses.key_epochs)

    def hold(self, name: str, agreed: CeremonyPlan, silent: CeremonyShard, since: CeremonyPhase) -> CeremonyState:
        """A ceremony in which one shard is away from a phase on; its plan and settings are where the verbs look."""
        coordinator, turns = coordinator_of(self.folder, agreed, self.shards), Turns()

        def clock() -> float:
            silent.away |= coordinator.state.phase >= since
            return turns.clock()

        self.made = coordinator.run(PHASE_S, 1.0, clock, turns.wait)
        silent.away = False
        folder = self.site.folder
        (folder / f"{name}.plan").write_bytes(encode(sign_plan(COORDINATOR, agreed)))
        (folder / f"{name}.toml").write_text(
            f"epoch = {EPOCH}\nthreshold = 2\nquorum = 2\nreveal_budget = 1\nassurance = 'simulated'\nphase_s = 1.0\n"
            f"network_file = 'network.json'\ncoordinator_key_file = 'coordinator.key'\nplan_file = '{name}.plan'\n"
            f"out_file = '{name}.json'\ndatabase_url = 'sqlite:///{self.folder / 'coordinator.sqlite'}'\n"
            f"entries = {[str(each.folder / 'entry.json') for each in self.shards]}\n"
        )
        return self.made

    def verb(self, verb: str, name: str, *without: int) -> int:
        """`open` or `rotate`; the exit code."""
        named = [word for index in without for word in ("--without", str(index))]
        keys = ["--config", str(self.site.folder / f"{name}.toml"), "--key", str(self.site.folder / "curator.key")]
        return self.site.kms(verb, *keys, *named)


@pytest.mark.e2e
def test_key_with_an_unproven_share_is_activated_only_by_naming_the_shard(
    anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = KeySite(anvil, tmp_path, capsys)
    held, chain = Ceremonies(site), reader(anvil, site.network)
    late = held.shards[2]
    made = held.hold("new", held.plan(), late, CeremonyPhase.CONFIRMING)
    assert made.phase is CeremonyPhase.DONE and unproven_shares(made) == {3: "was silent at the end"}
    sent = anvil.client.nonce(CURATOR.address)
    for verb in ("open", "rotate"):
        assert held.verb(verb, "new") == Exit.INCONCLUSIVE
        assert "no proof of the shares of shards 3 (was silent at the end)" in (said := site.said())
        assert "Nothing was sent" in said and "--without" in said
        for wrong, why in (
            ((2,), "proved its share"),
            ((3, 2), "proved its share"),
            ((3, 9), "no shard gets a share of this index"),
        ):
            assert held.verb(verb, "new", *wrong) == Exit.USAGE
            assert why in site.said()
    assert anvil.client.nonce(CURATOR.address) == sent and chain.epoch_on_chain(EPOCH, chain.head()).commitments == b""
    assert held.verb("rotate", "new", 3) == held.verb("open", "new", 3) == Exit.OK
    assert held.verb("open", "new") == Exit.INCONCLUSIVE, "also when it is in force"
    # Who had joined gets its share from the log, which takes no proof of it any more.
    assert run(coordinator_of(held.folder, made.plan, held.shards)) == made
    shares_make_the_key(made, numbered(held.shards))
    # Shares that are dealt again: the old ones stay in force until the curator names who was not there.
    first = epoch_document(made)
    again = held.hold("again", held.plan(first), late, CeremonyPhase.JOINING)
    assert again.phase is CeremonyPhase.DONE and unproven_shares(again) == {3: "did not join and has no share"}
    assert held.verb("open", "again") == Exit.INCONCLUSIVE
    assert "shards 3 (did not join and has no share)" in site.said()
    assert chain.epoch_on_chain(EPOCH, chain.head()).commitments == b"".join(first.commitments)
    held.made = made
    held.hold("stale", held.plan(first), late, CeremonyPhase.JOINING)
    assert held.verb("open", "again", 3) == Exit.OK
    assert chain.epoch_on_chain(EPOCH, chain.head()).version == 1
    shares_of_before_are_refused(held, made)


def shares_of_before_are_refused(held: Ceremonies, made: CeremonyState) -> None:
    """The contract refuses the ceremony "stale". Without a key, and with the book of another network, nothing is sent either."""
    site, client = held.site, held.site.anvil.client
    sent = client.nonce(CURATOR.address)
    assert held.verb("open", "stale", 3) == Exit.USAGE
    assert "KeyEpochs.reshare: refused by the contract: [R-54] eth_estimateGas reverted: TooFew" in site.said()
    assert site.kms("open", "--config", str(site.folder / "stale.toml"), "--without", "3") == Exit.USAGE
    assert "KeyEpochs.reshare: refused by the contract: [R-54] eth_call reverted: TooFew" in site.said()
    with pytest.raises(ConfigurationError, match="--network: is of another network than the ceremony"):
        put_in_force(client, replace(site.network, chain_id=U256(1)), CURATOR, made, [3])
    assert client.nonce(CURATOR.address) == sent


def done(parties_of_ceremony: CeremonyParties) -> CeremonyState:
    state = parties_of_ceremony.run()
    assert state.phase is CeremonyPhase.DONE
    return state


def test_each_shard_without_a_share_proof_is_named_with_its_reason() -> None:
    parties = [party(n) for n in range(1, 8)]
    parties[2].absent, parties[3].absent = {CeremonyPhase.CONFIRMING}, {CeremonyPhase.JOINING}
    parties[4].meddle = wrong_partial
    state = done(CeremonyParties(plan_for(parties, 2, 4), parties))
    assert list(unproven_shares(state)) == [3, 4, 5] and unproven_shares(state)[5].startswith("was found lying: ")
    named: Sequence[int]
    for named in ((), (3,), (3, 4), (4, 5)):
        with pytest.raises(SharesUnproven) as refused:
            verify_shares_proven(state, named)
        assert [f"{index} (" in str(refused.value) for index in (3, 4, 5)] == [index not in named for index in (3, 4, 5)]
    assert verify_shares_proven(state, [5, 3, 4, 3]) is state
    with pytest.raises(ConfigurationError, match="--without 1: this shard proved its share"):
        verify_shares_proven(state, [1, 3, 4, 5])
    held, source = generated(2, 3)
    heir = replace(held[0], share=None)
    mending = plan_for(held[1:], 2, 2, dealers=dict(enumerate(held[1:], 2)), source=source, heir=seat(1, heir))
    repaired = done(CeremonyParties(mending, [heir, *held[1:]]))
    assert verify_shares_proven(repaired) is repaired
    with pytest.raises(ConfigurationError, match="--without 2: no shard gets a share of this index"):
        verify_shares_proven(repaired, [2])
