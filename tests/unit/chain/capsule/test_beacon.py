"""Signatures of sync committees: real ones of Ethereum, synthetic ones of later forks, and answers that are none."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from bytewise.protocol.encoding import to_json
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import Digest, hex0x
from chain.capsule.beacon import NETWORKS, header_root, verify_finality
from chain.capsule.maker import add_finality
from chain.capsule.report import Failure, Result, Stop
from chain.capsule.schema import BeaconHeader, FinalityProof, SyncCommittee
from chain.capsule.verification import PAGE, verify_capsule
from docs.tools.capsule_page import network_json
from tests.fixtures.capsule import chromium
from tests.fixtures.capsule.chromium import Browser
from tests.fixtures.capsule.good_capsules import made_capsule
from tests.fixtures.capsule.liars import in_finality
from tests.fixtures.capsule.sync_committees import NETWORK, PUBLISHED, finalized, published
from tests.fixtures.chain.devnet import word

CHECKPOINT = "33d75f8506929d950a6d9e43508e92e50a072a39978821900e3a2e261f80ddbf"
"""Key under which the bootstrap was published: the root of its block."""
BLOCK = Digest(bytes.fromhex("4385bc35a5f2e2760f51c40626a63fe274c14bf9cccc5de739aff3e15432a293"))
"""Block 21,038,093 of Ethereum, as every explorer shows it."""


def test_real_committees_of_ethereum_finalize_a_block() -> None:
    proof = published()
    assert header_root(proof.checkpoint).hex() == CHECKPOINT
    assert verify_finality(proof, NETWORKS[1], BLOCK).startswith("506 of 512 members")
    with pytest.raises(Stop) as stop:
        verify_finality(proof, NETWORKS[1], word("another block"))
    assert stop.value.failure is Failure.FINALITY_EXECUTION
    with pytest.raises(Stop) as stop:
        verify_finality(proof, NETWORKS[560048], BLOCK)
    assert stop.value.failure in (Failure.FINALITY_COMMITTEE, Failure.FINALITY_SIGNATURE), "signatures of another network"


@pytest.mark.skipif(chromium.PROGRAM is None, reason="no chromium")
def test_page_verifies_real_committees() -> None:
    program = "bytewiseCapsule.verifyFinality(%s, %s, '%s')"
    network, proof = json.dumps(network_json(NETWORKS[1])), json.dumps(to_json(published()))
    with chromium.browser(Browser) as page:
        page.open(PAGE)
        assert page.value(program % (proof, network, hex0x(BLOCK))).startswith("506 of 512 members")
        failing = f"(() => {{ try {{ {program % (proof, network, hex0x(word('x')))} }} catch (e) {{ return e.failure }} }})()"
        assert page.value(failing) == "finality.execution"


def answers(proof: FinalityProof) -> tuple[Any, list[Any], Any]:
    """The answers of a beacon node, from Gloas on, that give this proof."""

    def header(of: BeaconHeader) -> dict[str, Any]:
        return {"beacon": to_json(of)}

    def committee(of: SyncCommittee | None) -> dict[str, Any] | None:
        if of is None:
            return None
        return {
            "pubkeys": [hex0x(of.keys[i : i + 48]) for i in range(0, len(of.keys), 48)], "aggregate_pubkey": hex0x(of.aggregate)
        }  # fmt: skip

    steps: list[dict[str, Any]] = [
        {
            "attested_header": header(each.attested), "signature_slot": str(each.signature_slot),
            "sync_aggregate": {"sync_committee_bits": hex0x(each.bits), "sync_committee_signature": hex0x(each.signature)},
            "finalized_header": header(each.finalized), "finality_branch": list(map(hex0x, each.finality_branch)),
            "next_sync_committee": committee(each.following),
            "next_sync_committee_branch": list(map(hex0x, each.following_branch)),
        }
        for each in proof.steps
    ]  # fmt: skip
    steps[-1]["finalized_header"]["execution_branch"] = list(map(hex0x, proof.execution_branch))
    bootstrap = {
        "header": header(proof.checkpoint), "current_sync_committee": committee(proof.committee),
        "current_sync_committee_branch": list(map(hex0x, proof.committee_branch)),
    }  # fmt: skip
    return {"data": bootstrap}, [{"data": each} for each in steps[:-1]], {"data": steps[-1]}


def test_capsule_gets_the_signatures_of_a_beacon_node() -> None:
    made, (wanted, trust) = made_capsule("overturned"), in_finality()
    bootstrap, updates, finality = answers(finalized(made.block_hash))
    networks = {31337: NETWORK}
    signed = add_finality(made.data, bootstrap, updates, finality, networks)
    assert signed == wanted and verify_capsule(signed, trust).result is Result.PASS
    with pytest.raises(ConfigurationError, match="chain 31337, whose beacon chain is not known"):
        add_finality(made.data, bootstrap, updates, finality)
    with pytest.raises(ConfigurationError, match=r"finality\.execution.*within one epoch"):
        add_finality(made.data, *answers(finalized(word("another block"))), networks)
    with pytest.raises(ConfigurationError, match=r"finality\.period"):
        add_finality(made.data, bootstrap, [], finality, networks)
    with pytest.raises(ConfigurationError, match="is no capsule"):
        add_finality(b"{}", bootstrap, updates, finality, networks)


BROKEN: dict[str, Callable[[dict[str, Any]], object]] = {
    "no finality": lambda d: d.update(finality=None),
    "a list": lambda d: d.update(bootstrap=[]),
    "an error of the node": lambda d: d.update(finality={"code": 404, "message": "not found"}),
    "updates that are texts": lambda d: d.update(updates=["x"]),
    "slot that is no number": lambda d: d["finality"]["data"].update(signature_slot="-1"),
    "slot above 64 bits": lambda d: d["finality"]["data"].update(signature_slot=str(2**64)),
    "hex without 0x": lambda d: d["finality"]["data"]["sync_aggregate"].update(sync_committee_bits="ff"),
    "short root": lambda d: d["bootstrap"]["data"]["header"]["beacon"].update(body_root="0x00"),
    "payload without a hash": lambda d: d["finality"]["data"]["finalized_header"]["execution"].pop("block_hash"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_answer_of_another_form_is_one_clear_line(name: str) -> None:
    changed = copy.deepcopy(PUBLISHED)
    BROKEN[name](changed)
    with pytest.raises(ConfigurationError, match="answer of a beacon node"):
        add_finality(made_capsule("opened").data, changed["bootstrap"], changed["updates"], changed["finality"])
