"""What `bytewise key` says to people where nothing is broken: a shard waits for its operator, a key is somebody else's."""

import threading

import pytest
import uvicorn

from bytewise.service.exit_codes import Exit
from chain.deployment.params import DEVNET
from chain.sending.keys import save_signer
from kms.shard.api import build_app
from kms.shard.http_limits import server_config
from kms.storage import keyring
from tests.fixtures.chain.devnet import signer
from tests.fixtures.cli.key_site import KeySite, site
from tests.fixtures.kms.release_network import wait_until

__all__ = ["site"]


@pytest.mark.e2e
def test_status_says_what_a_waiting_shard_waits_for(site: KeySite) -> None:
    """After every ceremony all shards do, until their operators give them the document."""
    one = site.world.document.record.shards[0]
    folder, (host, _, port) = site.world.settings.shards[0].folder, one.url.removeprefix("https://").partition(":")
    config = server_config(build_app(None), host, int(port), folder / keyring.TLS_CERTIFICATE, folder / keyring.TLS_KEY)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started, timeout_s=20)
        assert site.kms("list") == Exit.MISMATCH
    finally:
        server.should_exit = True
        thread.join(20)
    assert "key epoch 1: shard 1 serves no epoch yet: its operator puts the epoch's document at its epoch_file" in site.said()


@pytest.mark.e2e
def test_account_other_than_the_curator_is_a_usage_error(site: KeySite) -> None:
    site.next_epoch()
    site.anvil.pass_time(DEVNET.times.key_retention + 1)
    save_signer(site.folder / "other.key", signer(5))
    assert site.kms("retire", "1", "--key", str(site.folder / "other.key")) == Exit.USAGE
    assert f"{signer(5).address} is not the curator of this network: name the curator's key file" in site.said()
