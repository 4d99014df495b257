"""A verb that several nodes are named to: what most of them say is seen, and what is sent goes to all."""

from pathlib import Path

from bytewise.service.exit_codes import Exit
from chain.client.address_book import write_network
from chain.sending.keys import save_signer
from cli.__main__ import main
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import deployed, signer, word
from tests.fixtures.chain.lying_endpoints import fronts, gone, lies, refuses

CURATOR = signer(0)


def test_majority_of_several_nodes_decides_what_is_read_and_sent(anvil: Anvil, tmp_path: Path) -> None:
    """One that lies about the code, or about what a call would do, is outvoted; where no most agree, nothing is signed."""
    save_signer(tmp_path / "curator.key", CURATOR)
    item = f"0x{word('measurement').hex()}"
    network = deployed(anvil)
    write_network(tmp_path / "network.json", network)
    book = ["--network", str(tmp_path / "network.json")]
    asked = ["chain", "call", "Registry", "setMeasurement", item, "true", "--key", str(tmp_path / "curator.key"), "--send", *book]
    with fronts(anvil, 3) as nodes:
        three = [part for each in nodes for part in ("--rpc", each.url)]
        for lie in (lies("eth_getCode", lambda code: "0x00"), refuses("eth_call"), gone):
            nodes[0].change = lie
            before = anvil.client.nonce(CURATOR.address)
            assert main([*asked, *three]) == Exit.OK, lie
            assert anvil.client.nonce(CURATOR.address) == before + 1
        nodes[0].change = lies("eth_getCode", lambda code: "0x00")
        assert main([*asked, *three[:4]]) == Exit.UNAVAILABLE
        assert main([*asked, *three[2:4], *three[2:4]]) == Exit.USAGE, "one node, named twice"
        assert anvil.client.nonce(CURATOR.address) == before + 1
    assert anvil.client.call("Registry", network.addresses.registry, "isAllowed", word("measurement"), block="latest")
