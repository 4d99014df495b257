"""Settings of the gossip process: one TOML file, which the duty process's folder holds (`python -m gossip --config FILE`)."""

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from gossip.messages import GossipRefused

LISTEN = "/ip4/0.0.0.0/tcp/4001"
"""Address to listen on unless another is set."""


@dataclass(frozen=True, slots=True)
class GossipProcessSettings:
    """Everything that the process is told. Paths are relative to the file's folder."""

    peers_file: Path
    """`peers.json` of the duty process."""
    socket: Path
    """UNIX socket of the hand-over, which the process makes."""
    key_file: Path
    """Seed of the Ed25519 peer key, 32 bytes; made with mode 0600 if it is missing."""
    envelopes_folder: Path
    """The only folder of files that are offered to peers, and into which fetched ones are written; `envelopes` by default."""
    listen: str = LISTEN
    """Multiaddress to listen on: TCP."""


def read_settings(path: Path) -> GossipProcessSettings:
    """The settings of a file. `GossipRefused` with one line if it cannot be read, or names something unknown."""
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
        at["peers_file"], at["socket"], at["key_file"], at.get("envelopes_folder", path.parent / "envelopes"), listen
    )
