"""Where a shard takes no policy that nobody signed: as soon as epoch, evidence or chain are real."""

from dataclasses import replace

import pytest

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.evidence.appraisal_policy import EvidenceType
from bytewise.protocol.units import U256
from kms.shard.service import _verify_governed, build_shard
from tests.fixtures.kms.governed_policy import settings
from tests.fixtures.kms.memory_chain import CONTRACTS
from tests.fixtures.kms.release_network import World


@pytest.mark.parametrize(
    ("assurance", "evidence", "chain_id", "why"),
    [
        ("hardware", EvidenceType.SIMULATED, 31337, "key epoch 1 is of assurance hardware"),
        ("simulated", EvidenceType.TDX, 31337, "evidence is tdx"),
        ("simulated", EvidenceType.SNP, 31337, "evidence is snp"),
        ("hardware", None, 1, "key epoch 1 is of assurance hardware"),
        ("simulated", None, 31337, ""),
        ("simulated", EvidenceType.SIMULATED, 31337, ""),
    ],
)
def test_hardware_shard_does_not_start_on_an_unsigned_policy(
    fresh: World, assurance: str, evidence: EvidenceType | None, chain_id: int, why: str
) -> None:
    fresh.document = replace(fresh.document, record=replace(fresh.document.record, assurance=assurance))
    (fresh.folder / "epoch.json").write_bytes(encode(fresh.document))
    (fresh.folder / "policy.json").write_bytes(encode(fresh.policy))
    chosen = settings(fresh, policy_governors=(), policy_threshold=0, evidence=evidence)
    contracts = replace(CONTRACTS, chain_id=U256(chain_id))
    if not why:
        assert build_shard(chosen, contracts, fresh.chain).info().policy == fresh.policy.digest
        return
    with pytest.raises(ConfigurationError, match=f"policy_governors.*{why}.*bytewise key approve"):
        build_shard(chosen, contracts, fresh.chain)


def test_policies_on_a_real_chain_have_governors_in_every_epoch(fresh: World) -> None:
    """The epoch's own check comes first where it is simulated: here it is asked alone."""
    with pytest.raises(ConfigurationError, match="chain 1 is no test chain"):
        _verify_governed(settings(fresh, policy_governors=(), policy_threshold=0), fresh.document.record, 1)
