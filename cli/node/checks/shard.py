"""Checks of a key shard for `bytewise doctor` and `bytewise status`: the shard's process, its share and its appraisal policy."""

import ssl
from http import HTTPStatus
from typing import Any

import httpx2

from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.keys.epochs import EpochState, ShardInfo
from bytewise.protocol.units import hex0x
from bytewise.service.clock import SystemClock
from bytewise.service.readiness import Check
from bytewise.tee.policy import read_policy
from cli.node.view import NodeView
from kms.settings import ShardSettings
from kms.shard.refresh import refresh_in_s, share_age_check
from kms.storage import keyring
from kms.storage.sealing import open_sealer

CALL_S = 5.0
"""Longest time of one call to the shard, in seconds."""


def shard_info(settings: ShardSettings) -> ShardInfo | None:
    """Asks the running shard for its public information. Returns None if the shard serves no key epoch. Raises `TryAgain` if no
    process with the TLS key of this folder answers at the shard's port."""
    place = f"[{settings.host}]:{settings.port}" if ":" in settings.host else f"{settings.host}:{settings.port}"
    try:
        trust = ssl.create_default_context(cadata=keyring.certificate(settings.folder))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigurationError(keyring.TLS_CERTIFICATE, f"is no certificate: {error}") from None
    # The certificate is of the public address, not of this host. Only a process with the TLS key of this folder can use it.
    trust.check_hostname = False
    try:
        with httpx2.Client(verify=trust, timeout=CALL_S, trust_env=False) as client:
            answer = client.get(f"https://{place}/v1/info")
    except httpx2.HTTPError as error:
        raise TryAgain(place, f"this shard does not answer ({type(error).__name__})") from None
    if answer.status_code == HTTPStatus.NOT_FOUND:
        return None
    if answer.status_code != HTTPStatus.OK:
        raise TryAgain(place, f"the shard answers with status {answer.status_code}")
    return decode(ShardInfo, answer.content)


def process(view: NodeView) -> Check:
    """Checks that the shard's process answers at its port, with the TLS key of this folder."""
    settings, found = _settings(view), "running"
    try:
        shard_info(settings)
    except BytewiseError as error:
        found = str(error)
    return Check("process", found == "running", found, "a running process", "Start it: `bytewise run`.")


def share(view: NodeView) -> Check:
    """Checks that the shard has the share in force. It asks the running process as `/readyz` does. If no process runs, it looks
    for the share in the folder. It opens no share if the settings name a wrap command, because the command may ask a person."""
    from kms.shard.service import share_check  # imports the web server

    settings = _settings(view)
    try:
        return share_check(shard_info(settings))
    except TryAgain:
        pass
    if not settings.epoch_file.exists():
        return share_check(None)
    epoch = keyring.load_document(settings.epoch_file).record.epoch
    on_chain, threshold = view.reader.epoch_on_chain(epoch, view.head), "the share in force in the folder"
    advice = "`bytewise key open` puts the epoch on the chain; take its newest document."
    if on_chain.state is EpochState.NONE:
        return Check("share", False, f"epoch {epoch} is not on the chain", threshold, advice)
    if settings.sealing.wrap:
        return Check("share", True, f"epoch {epoch}, sealed by wrap_command, not opened", threshold, advice)
    sealer = open_sealer(settings.folder, settings.sealing)
    keyring.find_share(settings.folder, epoch, keyring.split_commitments(on_chain.commitments), sealer)
    return Check("share", True, f"epoch {epoch}, in the folder", threshold, advice)


def policy(view: NodeView) -> Check:
    """Checks that the shard uses the appraisal policy of the chain, at the block that its setting `finality` selects. A shard
    with another policy releases nothing."""
    settings = _settings(view)
    threshold = f"the policy that the chain names in its {settings.finality} block"
    try:
        info = shard_info(settings)
        own = None if info is None else info.policy
    except TryAgain:
        own = read_policy(settings.policy_file).digest if settings.epoch_file.exists() else None
    advice = "Take the newest policy as policy_file, and restart the shard."
    if own is None:
        return Check("policy", True, "needed with the first key epoch", threshold, advice)
    final = view.reader.final_policy() if settings.finality == "finalized" else None
    named = view.reader.snapshot(view.account, view.head).policy if final is None else final
    value = f"{hex0x(own)[:18]}…" + ("" if own == named else f", the chain names {hex0x(named)[:18]}…")
    return Check("policy", own == named, value, threshold, advice)


def share_age(view: NodeView) -> Check:
    """Checks that the shares in force are not older than the setting `refresh_days`. If they are, people must start a refresh."""
    return share_age_check(_settings(view), lambda epoch: view.reader.shares_dealt_at(epoch, view.head), SystemClock().now())


def next_refresh(view: NodeView) -> list[dict[str, Any]]:
    """Returns a list with one future duty for `bytewise status`: the next refresh of the shares, and the seconds until it is due.
    The list is empty if the shard serves no epoch, if the setting `refresh_days` is 0, or if the refresh is due already."""
    settings = _settings(view)
    if not settings.refresh_days or not settings.epoch_file.exists():
        return []
    epoch = keyring.load_document(settings.epoch_file).record.epoch
    since = view.reader.shares_dealt_at(epoch, view.head)
    left = 0 if since is None else refresh_in_s(settings, since, SystemClock().now())
    return [{"kind": "refresh", "subject": f"epoch {epoch}", "in_s": left}] if left > 0 else []


def _settings(view: NodeView) -> ShardSettings:
    settings = view.settings
    assert isinstance(settings, ShardSettings), "asked only for a shard"
    return settings
