"""Rules of what an account signs, read from the bytes: each is broken alone, is named with its value, and reaches no signer."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from fastapi import Response
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.address_book import Network, PoolTree
from bytewise.protocol.errors.actors import SigningRefused
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.signing import ALTERNATIVE, LABELS, Domain, Preimage, labelled_preimage, typed_preimage
from bytewise.protocol.units import U256, Address
from bytewise.service.sections import SignerSettings
from chain.sending.keys import SigningRules, open_signer, save_signer
from chain.sending.transactions import TX_GAS_CAP, UnsignedTransaction, read_unsigned
from tests.fixtures.builders import ANCHOR, CHAIN_ID, DEMANDS, DISPUTES, KEY_EPOCHS, signer, word
from tests.fixtures.chain.signer_service import make_signer_files, running_signer
from tests.fixtures.verifier.verifier_fixture import NETWORK, WORLD

KEY = signer("account")
TREE, UNKNOWN = (Address("0x" + two * 20) for two in ("77", "ab"))
BOOK: Network = replace(NETWORK, pools=(PoolTree(word("pool"), TREE),))
ETHER = 10**18
RULES = SigningRules(BOOK, KEY.address, 2 * ETHER, 300 * 10**9)
CALL = UnsignedTransaction(CHAIN_ID, 7, 10**9, 300 * 10**9, TX_GAS_CAP, ANCHOR.contract, 2 * ETHER, b"call")
EMPTY = CALL._replace(to=KEY.address, value_wei=0, data=b"")

integers = st.integers(0, 2**64 - 1)
transactions = st.builds(
    UnsignedTransaction, chain_id=st.integers(1, 2**32), nonce=integers, tip=integers, max_fee=integers, gas=integers,
    to=st.none() | st.binary(min_size=20, max_size=20).map(lambda raw: Address("0x" + raw.hex())),
    value_wei=st.integers(0, 2**128), data=st.binary(max_size=300),
)  # fmt: skip


@given(transactions)
def test_signed_transaction_has_the_bytes_that_eth_account_makes(made: UnsignedTransaction) -> None:
    fields: dict[str, Any] = {
        "type": 2, "chainId": made.chain_id, "nonce": made.nonce, "gas": made.gas, "value": made.value_wei,
        "maxFeePerGas": made.max_fee, "maxPriorityFeePerGas": made.tip, "data": made.data,
    }  # fmt: skip
    theirs = Account.sign_transaction(fields | ({} if made.to is None else {"to": bytes.fromhex(made.to[2:])}), KEY.secret)
    assert made.signed(KEY.sign_preimage(made.preimage)) == (bytes(theirs.raw_transaction), bytes(theirs.hash))


@given(transactions)
def test_preimage_of_a_transaction_is_read_back(made: UnsignedTransaction) -> None:
    assert read_unsigned(made.preimage) == made


@given(st.binary(max_size=200))
def test_bytes_that_are_no_transaction_are_malformed(noise: bytes) -> None:
    for data in (noise, b"\x02" + noise):
        try:
            assert read_unsigned(data).preimage == data
        except MalformedValue:
            pass


def test_transaction_with_an_access_list_is_malformed() -> None:
    fields = {
        "type": 2, "chainId": 1, "nonce": 0, "gas": 21_000, "value": 0, "maxFeePerGas": 1, "maxPriorityFeePerGas": 1, "data": b"",
        "to": bytes(20), "accessList": [{"address": "0x" + "11" * 20, "storageKeys": []}],
    }  # fmt: skip
    import rlp  # the unsigned form, from the signed one

    raw = bytes(Account.sign_transaction(fields, KEY.secret).raw_transaction)
    unsigned = b"\x02" + rlp.encode(rlp.decode(raw[1:])[:9])
    with pytest.raises(MalformedValue, match="access list"):
        read_unsigned(unsigned)


@pytest.mark.parametrize(
    "allowed",
    [
        CALL.preimage,
        CALL._replace(to=TREE, value_wei=0, gas=0).preimage,
        EMPTY.preimage,
        typed_preimage(ANCHOR, WORLD.answered(1).receipt),
        typed_preimage(DISPUTES, WORLD.answered(1).receipt),
        typed_preimage(KEY_EPOCHS, WORLD.answered(1).receipt),
        *(labelled_preimage(label, word("any")) for label in LABELS),
    ],
)
def test_what_an_actor_signs_is_allowed(allowed: Preimage) -> None:
    RULES.verify(allowed)


BROKEN = [
    (CALL._replace(chain_id=1).preimage, "chain id", "chain 1"),
    (CALL._replace(to=UNKNOWN).preimage, "contract", UNKNOWN),
    (CALL._replace(to=None).preimage, "contract", "nobody"),
    (EMPTY._replace(value_wei=1).preimage, "contract", KEY.address),
    (EMPTY._replace(data=b"x").preimage, "contract", KEY.address),
    (CALL._replace(value_wei=2 * ETHER + 1).preimage, "value", str(2 * ETHER + 1)),
    (CALL._replace(max_fee=300 * 10**9 + 1).preimage, "fee", str(300 * 10**9 + 1)),
    (CALL._replace(gas=TX_GAS_CAP + 1).preimage, "gas", str(TX_GAS_CAP + 1)),
    (typed_preimage(DEMANDS, WORLD.answered(1).receipt), "domain", DEMANDS.separator.hex()),
    (typed_preimage(Domain(1, ANCHOR.contract), WORLD.answered(1).receipt), "domain", "domain separator"),
    (typed_preimage(Domain(CHAIN_ID, UNKNOWN), WORLD.answered(1).receipt), "domain", "domain separator"),
    (typed_preimage(ANCHOR, WORLD.answered(1).receipt) + b"\0", "form", "67 bytes"),
    (typed_preimage(ANCHOR, WORLD.answered(1).receipt)[:-1], "form", "65 bytes"),
    (CALL.preimage + b"\0", "form", "transaction"),
    (CALL.preimage[:-1], "form", "transaction"),
    (b"", "form", "0 bytes"),
    (b"\x19Ethereum Signed Message:\n4text", "form", "no transaction"),
    (b"\x01" + CALL.preimage[1:], "form", "no transaction"),
    (ALTERNATIVE + bytes(31), "form", "no label"),
    (b"bytewise another    " + bytes(32), "form", "no label"),
]


@pytest.mark.parametrize(("preimage", "rule", "value"), BROKEN)
def test_broken_rule_is_named_with_its_value(preimage: bytes, rule: str, value: str) -> None:
    with pytest.raises(SigningRefused) as found:
        RULES.verify(Preimage(preimage))
    assert found.value.values[0] == rule and value in str(found.value)


def test_refused_message_reaches_neither_kind_of_signer(tmp_path: Path) -> None:
    files, asked = make_signer_files(tmp_path), list[bytes]()
    save_signer(tmp_path / "account.key", KEY)
    value, fee = U256(2 * ETHER), 300 * 10**9

    def record(_key: str, data: bytes, true: Response) -> Response:
        asked.append(data)
        return true

    with running_signer(files, [KEY], record) as url:
        local = open_signer(SignerSettings(tmp_path / "account.key", max_value_wei=value, max_fee_wei=fee), BOOK)
        remote = open_signer(files.section(url, KEY.address, max_value_wei=value, max_fee_wei=fee), BOOK)
        for account in (local, remote):
            for preimage, rule, _ in BROKEN:
                with pytest.raises(SigningRefused, match=f"signing rule {rule}"):
                    account.sign_preimage(Preimage(preimage))
        assert asked == []
        assert local.sign_preimage(CALL.preimage) == remote.sign_preimage(CALL.preimage)
        assert asked == [CALL.preimage]
