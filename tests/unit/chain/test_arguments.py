"""Arguments as people write them become what the ABI wants, or an error that names which one is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest
from eth_utils.address import to_checksum_address
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import hex0x
from chain.client.arguments import read_arguments, signature
from chain.client.artifacts import CONTRACTS, interface
from tests.fixtures.chain.devnet import signer, word

SOMEBODY = signer(1).address


def entry(contract: str, function: str) -> Any:
    return interface(contract).functions[function]


@pytest.mark.parametrize(
    ("contract", "function", "texts", "wanted"),
    [
        ("Guardian", "pause", ["3600"], (3600,)),
        ("Guardian", "unpause", [], ()),
        ("Ledger", "setMover", [SOMEBODY, "true"], (SOMEBODY, True)),
        ("Ledger", "setMover", [to_checksum_address(SOMEBODY), "False"], (SOMEBODY, False)),
        ("Ledger", "setMover", ["0x" + SOMEBODY[2:].upper(), "true"], (SOMEBODY, True)),
        ("Ledger", "setMover", [SOMEBODY.upper(), "true"], (SOMEBODY, True)),
        ("Registry", "close", [hex0x(word("it"))], (word("it"),)),
        ("Registry", "registerOperator", ["@no file: a string is what it is"], ("@no file: a string is what it is",)),
        ("AccessManager", "setTargetFunctionRole", [SOMEBODY, '["0x01020304"]', "5"], (SOMEBODY, [b"\1\2\3\4"], 5)),
        ("Demands", "equivocation", None, None),
    ],
)
def test_text_arguments_become_abi_values(contract: str, function: str, texts: Any, wanted: Any) -> None:
    if texts is None:
        parts = [samples(each) for each in entry(contract, function)["inputs"]]
        texts, wanted = [text for text, _ in parts], tuple(value for _, value in parts)
    assert read_arguments(entry(contract, function), texts) == wanted
    interface(contract).call(function, *wanted)


def samples(parameter: Any) -> tuple[str, Any]:
    """One argument as text and as value."""
    if parameter["type"] == "tuple":
        parts = {each["name"]: samples(each) for each in parameter["components"]}
        return json.dumps({name: text for name, (text, _) in parts.items()}), tuple(value for _, value in parts.values())
    if parameter["type"] == "address":
        return SOMEBODY, SOMEBODY
    if parameter["type"].startswith("bytes"):
        return hex0x(word("word")), word("word")
    return "17", 17


def test_bytes_and_structures_come_from_files(tmp_path: Path) -> None:
    document, listed = tmp_path / "policy.json", tmp_path / "list.json"
    document.write_bytes(b'{"policy":1}\xff')
    listed.write_text('["0x01020304"]\n')
    policy = read_arguments(entry("Registry", "setPolicy"), [hex0x(word("p")), "2", f"@{document}"])
    assert policy == (word("p"), 2, b'{"policy":1}\xff')
    assert read_arguments(entry("AccessManager", "setTargetFunctionRole"), [SOMEBODY, f"@{listed}", "5"])[1] == [b"\1\2\3\4"]
    with pytest.raises(ConfigurationError, match=r"document: .*No such file"):
        read_arguments(entry("Registry", "setPolicy"), [hex0x(word("p")), "2", f"@{tmp_path / 'none'}"])


@pytest.mark.parametrize(
    ("contract", "function", "texts", "words"),
    [
        ("Guardian", "pause", [], r"pause\(uint64 duration\) takes 1, not 0"),
        ("Guardian", "pause", ["an hour"], r'duration \(uint64\): must be a whole number, not "an hour"'),
        ("Guardian", "pause", [str(2**64)], r"duration \(uint64\): 18446744073709551616 is outside it"),
        ("Guardian", "pause", ["-1"], "-1 is outside it"),
        ("Guardian", "pause", ["٣"], "must be a whole number"),
        ("Ledger", "setMover", [SOMEBODY, "1"], r'allowed \(bool\): must be true or false, not "1"'),
        ("Ledger", "setMover", ["0x12", "true"], r"who \(address\): .*address: 4 characters"),
        ("Ledger", "setMover", [to_checksum_address(SOMEBODY).swapcase().replace("0X", "0x"), "true"], "has a wrong checksum"),
        ("Registry", "close", ["0x12"], r"digest \(bytes32\): .*bytes32: 1 bytes"),
        ("Registry", "close", ["@a\0b"], r"digest: 'a\\x00b' is no path"),
        ("Registry", "registerOperator", ["\udcff"], r"\(string\): is no UTF-8"),
        ("Registry", "close", ["12"], r"digest \(bytes32\): .*hex: 2 characters"),
        ("Params", "set", ["{}"], r"p \(struct\): must be an object with times, committee, money, shares, not {}"),
        ("Params", "set", ["{"], "is no JSON"),
        ("Params", "set", ["[" * 100_000], "is no JSON"),
        ("AccessManager", "setTargetFunctionRole", [SOMEBODY, "7", "5"], r"selectors \(bytes4\[\]\): must be a list, not 7"),
        ("AccessManager", "setTargetFunctionRole", [SOMEBODY, "[7]", "5"], r"selectors\[0\] \(bytes4\): must be text, not 7"),
    ],
)
def test_malformed_argument_is_named(contract: str, function: str, texts: list[str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        read_arguments(entry(contract, function), texts)


def test_a_struct_names_the_field_that_is_wrong() -> None:
    text, _ = samples(entry("Demands", "equivocation")["inputs"][2])
    wrong = json.loads(text) | {"seq": True}
    arguments = [samples(each)[0] for each in entry("Demands", "equivocation")["inputs"]]
    twice = [*arguments[:2], text[:-1] + ', "seq": 1}', arguments[3]]
    with pytest.raises(ConfigurationError, match="repeated key"):
        read_arguments(entry("Demands", "equivocation"), twice)
    with pytest.raises(ConfigurationError, match=r"\.seq \(uint64\): must be a whole number, not true"):
        read_arguments(entry("Demands", "equivocation"), [*arguments[:2], json.dumps(wrong), arguments[3]])


EVERY = [(name, function) for name in CONTRACTS for function in interface(name).writing()]


@given(which=st.sampled_from(EVERY), data=st.data())
def test_any_text_is_an_argument_of_the_abi_or_an_error(which: tuple[str, str], data: st.DataObject) -> None:
    contract, function = which
    inputs = entry(contract, function)["inputs"]
    # "@" would read files of this machine.
    text = st.one_of(st.text(max_size=20), st.from_regex(r"(0x)?[0-9a-f]{0,64}", fullmatch=True)).filter(lambda t: t[:1] != "@")
    texts = [data.draw(text) for _ in inputs]
    try:
        arguments = read_arguments(entry(contract, function), texts)
    except ConfigurationError as error:
        assert str(error)
        return
    assert interface(contract).arguments(function, interface(contract).call(function, *arguments)[4:]) is not None


def test_a_function_is_shown_with_names_and_types() -> None:
    assert signature(entry("Ledger", "setMover")) == "setMover(address who, bool allowed)"
