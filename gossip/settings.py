"""Settings of the gossip process: one TOML file in the folder of the duty process (`python -m gossip --config FILE`)."""

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from gossip.messages import GossipRefused

LISTEN = "/ip4/0.0.0.0/tcp/4001"
"""Default multiaddress to listen on."""
ENVELOPES = Path("envelopes")
"""Default folder of envelopes, in the folder of the settings file."""


@dataclass(frozen=True, slots=True)
class GossipProcessSettings:
    """The settings of the gossip process. Paths are relative to the folder of the settings file."""

    peers_file: Path
    """Path of `peers.json`, which the duty process writes."""
    socket: Path
    """Path of the UNIX socket that the gossip process creates for calls of the duty process (`gossip.handover`)."""
    key_file: Path
    """File with the seed of the Ed25519 peer key, 32 bytes. It is created with mode 0600 if it is missing."""
    envelopes_folder: Path = ENVELOPES
    """The only folder from which peers may fetch envelopes, and to which fetched envelopes are written."""
    listen: str = LISTEN
    """TCP multiaddress to listen on."""


def read_settings(path: Path) -> GossipProcessSettings:
    """Reads the settings file. Raises `GossipRefused` if it cannot be read, lacks a setting or has an unknown one."""
    try:
        values: dict[str, Any] = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise GossipRefused("settings", f"{path.name}: {error}") from None
    known = {each.name for each in fields(GossipProcessSettings)}
    missing = {"peers_file", "socket", "key_file"} - values.keys()
    if missing or values.keys() - known:
        raise GossipRefused("settings", f"{path.name}: lacks {sorted(missing)}, does not know {sorted(values.keys() - known)}")
    at = {name: path.parent / str(value) for name, value in values.items() if name != "listen"}
    listen = str(values.get("listen", LISTEN))
    return GossipProcessSettings(
        at["peers_file"], at["socket"], at["key_file"], at.get("envelopes_folder", path.parent / ENVELOPES), listen
    )
