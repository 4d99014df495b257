"""A file of calls is proposed as it is, or refused with the place that is wrong."""

from pathlib import Path

import pytest

from bytewise.protocol.errors.actors import ConfigurationError
from chain.deployment.calls import ContractCall
from cli.chain.proposal import acts_of
from tests.fixtures.chain.devnet import signer

MOVER = signer(7).address
CALL = '{"contract": "Ledger", "function": "setMover", "arguments": ["' + MOVER + '", true]'
WRONG = {
    "nothing": "calls.json: is no JSON: ",
    "[" * 100_000: "is no JSON: ",
    '{"contract": "Ledger"}': "is no JSON list of calls",
    '[{"contract": "Ledger"}]': "calls.json[0]: is no {",
    "[" + CALL + '}, ["Ledger"]]': "calls.json[1]: is no {",
    "[" + CALL + ', "valeu": 5}]': "calls.json[0]: is no {",
    "[" + CALL + ', "value": "5"}]': "calls.json[0].value: is no whole number",
    "[" + CALL + ', "value": true}]': "calls.json[0].value: is no whole number",
    "[" + CALL + ', "value": -5}]': "calls.json[0].value: is no number of wei",
    "[" + CALL + ', "function": "deposit"}]': "repeated key",
    CALL.replace('"setMover"', '["setMover"]').join("[]").replace("]]", "]}]"): "calls.json[0].function: is no text",
    '[{"contract": "Guardian", "function": "pause", "arguments": "7"}]': "calls.json[0].arguments: is no list",
    '[{"contract": "Guardian", "function": "pause", "arguments": {"7": 1}}]': "calls.json[0].arguments: is no list",
    '[{"contract": "Guardian", "function": "pause", "arguments": {}}]': "calls.json[0].arguments: is no list",
}


@pytest.mark.parametrize("content", WRONG)
def test_malformed_list_of_calls_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "calls.json"
    file.write_text(content)
    with pytest.raises(ConfigurationError) as refused:
        acts_of(file)
    assert WRONG[content] in str(refused.value)


def test_list_of_calls_keeps_its_values_and_wei(tmp_path: Path) -> None:
    file = tmp_path / "calls.json"
    file.write_text("[" + CALL + '}, {"value": 5, "arguments": [], "function": "fund", "contract": "Ledger"}]')
    assert acts_of(file) == [ContractCall("Ledger", "setMover", (MOVER, True)), ContractCall("Ledger", "fund", (), 5)]
    with pytest.raises(ConfigurationError, match="No such file"):
        acts_of(tmp_path / "none")
