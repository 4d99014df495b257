"""The committed ABI decodes what contracts say, and refuses what they cannot have said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.address_book import Addresses
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.receipt import EmptyLeaf, Receipt
from bytewise.protocol.records.statements import AuditResult, Shares, Vote
from bytewise.protocol.signing import camel, type_string
from bytewise.protocol.units import ZERO_DIGEST
from chain.client.artifacts import ADAPTERS, BESIDE, CONTRACTS, EIGENLAYER, FOLDER, Reason, all_errors, interface
from chain.client.rpc import decode_log
from chain.deployment.plan import ARTIFACT, TREE, names

EIP170_BYTES = 24_576
"""Most code of a contract; even creation code, which has more in it than what stays, is shorter here."""


@pytest.mark.parametrize("name", [*CONTRACTS, *ADAPTERS, *BESIDE])
def test_every_contract_has_code_that_fits_and_errors_that_we_read(name: str) -> None:
    assert 0 < len(interface(name).bytecode) < EIP170_BYTES
    assert interface(name).errors.keys() <= all_errors().keys()


def test_every_contract_but_trees_is_deployed_and_in_the_address_book() -> None:
    deployed = names([ZERO_DIGEST])
    assert {ARTIFACT.get(name.split()[0], name.split()[0]) for name in deployed} == set(CONTRACTS)
    single = {name for name in deployed if not name.startswith(TREE)}
    assert {camel("_" + field) for field in Addresses.__dataclass_fields__} == single
    assert {path.stem for path in FOLDER.glob("*.json")} == {*CONTRACTS, *ADAPTERS, *BESIDE, *EIGENLAYER}


@pytest.mark.parametrize(
    ("contract", "function", "record"),
    [
        ("ReceiptAnchor", "receiptId", Receipt),
        ("ReceiptAnchor", "emptyLeafId", EmptyLeaf),
        ("Rounds", "hashVote", Vote),
        ("Audits", "hashAudit", AuditResult),
        ("KeyEpochs", "hashShares", Shares),
    ],
)
def test_signed_records_have_the_same_fields_in_abi_and_python(contract: str, function: str, record: type) -> None:
    (argument,) = interface(contract).functions[function]["inputs"]
    members = ",".join(f"{each['type']} {each['name']}" for each in argument["components"])
    assert type_string(record) == f"{record.__name__}({members})"


@pytest.mark.parametrize("name", CONTRACTS)
def test_every_argument_has_a_name(name: str) -> None:
    inherited = ("onERC1155BatchReceived", "onERC1155Received", "onERC721Received")
    functions = interface(name).functions.items()
    nameless = {f for f, entry in functions for each in entry["inputs"] if not each["name"] and f not in inherited}
    assert nameless == set()


def test_an_unknown_contract_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError):
        interface("NoSuchContract")


def test_an_argument_outside_its_type_is_refused_by_name() -> None:
    with pytest.raises(MalformedValue, match=r"Disputes\.draw"):
        interface("Disputes").call("draw", b"\1" * 33)


@given(st.binary(max_size=300))
def test_any_revert_data_has_a_printable_reason(data: bytes) -> None:
    assert str(Reason.of(data)).isprintable()


@given(st.sampled_from(["snapshot", "money", "batches", "disputeView"]), st.binary(max_size=600))
def test_any_answer_decodes_or_is_refused(function: str, data: bytes) -> None:
    try:
        interface("Lens").result(function, data)
    except BytewiseError as error:
        assert isinstance(error, MalformedValue)


@given(st.binary(max_size=300), st.integers(0, 3))
def test_any_log_decodes_is_skipped_or_is_refused(data: bytes, topics: int) -> None:
    raw = {"topics": ["0x" + interface("Disputes").topic("Settled").hex()] + ["0x" + "01" * 32] * topics,
           "data": "0x" + data.hex(), "address": "0x" + "11" * 20, "blockNumber": "0x1", "blockHash": "0x" + "22" * 32,
           "logIndex": "0x0", "transactionHash": "0x" + "33" * 32}  # fmt: skip
    try:
        assert decode_log("Disputes", raw) is not None
    except MalformedValue:
        pass
    assert decode_log("Disputes", raw | {"topics": []}) is None
