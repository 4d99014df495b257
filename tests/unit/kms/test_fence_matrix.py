"""The fences around the simulator, each in turn the only one that stands before a key release (fence 8,
`docs/reference/attestation.md`).

With every fence removed this is the ordinary test network, in which an enclave of the simulator gets a partial. Each fence adds
one thing that production has. The evidence is shown as what it is, and as hardware's by somebody who altered the simulator.
"""

import copy
import dataclasses
import re
import runpy
from dataclasses import dataclass, replace

import pytest

from bytewise.ports import Quoter
from bytewise.protocol.digests import sha256
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ConfigurationError, EvidenceRefused
from bytewise.protocol.evidence import appraisal_policy
from bytewise.protocol.evidence.appraisal_policy import (
    AppraisalPolicy,
    Coverage,
    EvidenceType,
    GpuUse,
    PlatformKind,
    TrustedMeasurement,
)
from bytewise.protocol.keys.epochs import Decision
from bytewise.protocol.units import Blob
from bytewise.service.clock import SystemClock
from bytewise.tee import appraisal, quoters
from bytewise.tee.dcap import td_measurement
from bytewise.tee.policy import load_policy
from bytewise.tee_simulated.authorities import Platform, der, load_root, make_root
from bytewise.tee_simulated.quoter import SimulatedQuoter
from bytewise.tee_simulated.td_quote import TdBody, body_of
from tests.fixtures.kms.memory_chain import CHAIN_ID, MemoryChain
from tests.fixtures.kms.release_network import World, program
from tests.fixtures.tee.attested_peer import attested
from tests.source import ROOT

OWN_ROOT, OWN_TYPE, OWN_PACKAGE, CONFIGURATION, OWN_KEYS, LABELS, SHORT_LIFE, MATRIX = range(1, 9)
REFUSING = (OWN_ROOT, OWN_TYPE, OWN_PACKAGE, CONFIGURATION, OWN_KEYS, SHORT_LIFE)
"""A label (6) refuses nobody, and neither does this test (8)."""
AS_IT_IS, RELABELLED = "as it is", "relabelled"
PASSES = ""

pytestmark = pytest.mark.filterwarnings("ignore:'bytewise.tee_simulated.quoter' found in sys.modules")

ALONE: dict[tuple[int, str], str] = {
    (OWN_ROOT, AS_IT_IS): "evidence has no trusted root",
    (OWN_ROOT, RELABELLED): "root of the rule is not the vendor's",
    (OWN_TYPE, AS_IT_IS): "type simulated is not allowed",
    (OWN_TYPE, RELABELLED): "marked as simulated",
    (OWN_PACKAGE, AS_IT_IS): "imported in a production process",
    (OWN_PACKAGE, RELABELLED): "imported in a production process",
    (CONFIGURATION, AS_IT_IS): "simulated evidence on a chain that is no test chain",
    (CONFIGURATION, RELABELLED): PASSES,
    (OWN_KEYS, AS_IT_IS): "type simulated for an epoch labelled hardware",
    (OWN_KEYS, RELABELLED): PASSES,
    (SHORT_LIFE, AS_IT_IS): PASSES,
    (SHORT_LIFE, RELABELLED): "hardware without a platform id",
}
"""What each fence says when it alone stands, or that such evidence passes it: the table of `docs/reference/attestation.md` says
why."""


class Altered:
    """A simulator whose owner calls its quotes TDX's, and took from them what the fences that are removed look for."""

    def __init__(self, simulator: SimulatedQuoter, standing: frozenset[int]) -> None:
        self._simulator, self._standing = simulator, standing

    def quote(self, report_data: bytes) -> Blob:
        """See `bytewise.ports.Quoter`."""
        ppid = bytes(16) if SHORT_LIFE in self._standing else b"\x07" * 16
        evidence = self._simulator.evidence(altered_body(self._standing, report_data), ppid=ppid)
        return Blob(encode(replace(evidence, type=EvidenceType.TDX)))


def altered_body(standing: frozenset[int], report_data: bytes = bytes(64)) -> TdBody:
    """What an altered simulator quotes."""
    body = body_of(program(), report_data)
    return body if OWN_TYPE in standing else replace(body, mr_config_id=bytes(48))


@dataclass
class Attempt:
    """A shard with some of what production has, and an enclave of the simulator that asks it for a key."""

    world: World
    patch: pytest.MonkeyPatch
    standing: frozenset[int]
    shown: str

    def decision(self) -> int:
        """What the shard decides; or the refusal of the fence that stops it before."""
        quoter, policy, world = self._quoter(), self._policy(), self.world
        world.document = replace(world.document, record=replace(world.document.record, assurance=self._label()))
        world.chain = MemoryChain(world.document, policy.digest)
        case, shard = world.disputed(), world.shard(1, policy=policy)
        peer = attested(shard.terms(), quoter, world.public, policy.digest)
        return shard.release(encode(world.request(case)), peer).record.decision

    def _quoter(self) -> Quoter:
        self.patch.setattr(quoters.ProcessMode, "production", OWN_PACKAGE in self.standing)
        # As in a process that has not loaded it yet.
        simulator = runpy.run_module("bytewise.tee_simulated.quoter")["SimulatedQuoter"]
        quoter: SimulatedQuoter = simulator(Platform(self.world.folder / "platform.key"), program(), SystemClock())
        return quoter if self.shown == AS_IT_IS else Altered(quoter, self.standing)

    def _policy(self) -> AppraisalPolicy:
        production = CONFIGURATION in self.standing
        if production:
            self.patch.setattr(appraisal_policy, "TEST_CHAIN_IDS", frozenset())
        policy, file = self.world.policy, self.world.folder / "in-force.json"
        of_hardware = self.shown == RELABELLED or OWN_TYPE in self.standing
        rule = replace(policy.rules[0], root=self._root(), type=EvidenceType.TDX if of_hardware else EvidenceType.SIMULATED)
        programs = (self._measurement(),) if of_hardware else policy.measurements
        policy = AppraisalPolicy(policy.serial, policy.chain_ids, (rule,), programs, not of_hardware)
        file.write_bytes(encode(policy))
        return load_policy(file, CHAIN_ID, production)

    def _measurement(self) -> TrustedMeasurement:
        measured = td_measurement(**dataclasses.asdict(altered_body(self.standing)))
        return TrustedMeasurement(PlatformKind.TDX, measured, (Coverage.PROGRAM,), "all", GpuUse.NONE)

    def _root(self) -> Blob:
        simulators = self.world.policy.rules[0].root
        if OWN_ROOT not in self.standing:
            self.patch.setattr(
                appraisal, "VENDOR_ROOTS", {**appraisal.VENDOR_ROOTS, EvidenceType.TDX: {sha256(simulators).hex()}}
            )
            return simulators
        # What passes for hardware meets the roots that are compiled in, whatever the policy names; what is of type simulated
        # meets the root of the policy. Another root stands for the vendor's: Intel's own is in no file of ours.
        return simulators if self.shown == RELABELLED else der(load_root(self.world.folder / "vendor"))

    def _label(self) -> str:
        # Removed, the chain's label of the epoch is what such evidence needs: simulated, or hardware for what passes as that.
        return "hardware" if OWN_KEYS in self.standing or self.shown == RELABELLED else "simulated"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A network, and beside it the root of a vendor."""
    world = World(tmp_path_factory.mktemp("fences"))
    make_root(world.folder / "vendor")
    return world


@pytest.fixture
def world(shared: World) -> World:
    """The network with its documents as they were made."""
    return copy.copy(shared)


def refused(attempt: Attempt, words: str | None = None) -> None:
    with pytest.raises((ConfigurationError, EvidenceRefused), match=words):
        attempt.decision()


@pytest.mark.parametrize("shown", [AS_IT_IS, RELABELLED])
def test_without_all_fences_simulated_evidence_opens_a_receipt(world: World, monkeypatch: pytest.MonkeyPatch, shown: str) -> None:
    """Control: without it a refusal below might have any other reason."""
    assert Attempt(world, monkeypatch, frozenset(), shown).decision() == Decision.RELEASED


@pytest.mark.parametrize("shown", [AS_IT_IS, RELABELLED])
@pytest.mark.parametrize("removed", REFUSING)
def test_with_one_fence_removed_others_refuse(world: World, monkeypatch: pytest.MonkeyPatch, removed: int, shown: str) -> None:
    refused(Attempt(world, monkeypatch, frozenset(REFUSING) - {removed}, shown))


@pytest.mark.parametrize(("fence", "shown"), ALONE)
def test_one_fence_alone_refuses(world: World, monkeypatch: pytest.MonkeyPatch, fence: int, shown: str) -> None:
    attempt = Attempt(world, monkeypatch, frozenset({fence}), shown)
    if ALONE[fence, shown] == PASSES:
        assert attempt.decision() == Decision.RELEASED
    else:
        refused(attempt, ALONE[fence, shown])


def test_every_fence_that_refuses_is_tested_alone_and_documented() -> None:
    assert {fence for (fence, _), words in ALONE.items() if words} == set(REFUSING)
    document = (ROOT / "docs" / "reference" / "attestation.md").read_text()
    assert re.findall(r"^\| ([1-8]) \|", document, re.MULTILINE) == [str(each) for each in range(1, 9)]
