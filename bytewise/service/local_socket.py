"""A UNIX socket at which one process listens for jobs of other processes of its machine.

The kernel names the user of each peer. The mode of the socket file alone cannot admit one other user.
"""

import os
import socket
import struct
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError

POLL_S = 0.5
"""Seconds after which `accept` gives up, so that its caller can look whether it must stop."""

_PATH_LIMIT = 107
"""Most bytes of a socket path (unix(7): `sun_path` has 108 bytes with its final zero)."""
_CREDENTIALS = struct.Struct("3i")


def listen(path: Path, backlog: int, client_uid: int) -> socket.socket:
    """Returns a socket that listens at `path`. Replaces a socket file that an ended process left.

    Peers of the user `client_uid` can connect besides those of this process's user, if it is not negative; `is_admitted` checks
    each peer. Raises `ConfigurationError` if another process listens at `path`, because taking its socket would cut it off.
    """
    if len(os.fsencode(path)) > _PATH_LIMIT:
        raise ConfigurationError("socket", f"path is longer than {_PATH_LIMIT} bytes")
    if path.is_socket():
        if _is_served(path):
            raise ConfigurationError("socket", f"another process listens at {path.name}: stop it, or name another socket")
        path.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177 if client_uid < 0 else 0o111)
    try:
        server.bind(str(path))
    except OSError as error:
        server.close()
        raise ConfigurationError("socket", error.strerror or "cannot be bound") from None
    finally:
        os.umask(before)
    server.listen(backlog)
    server.settimeout(POLL_S)
    return server


def is_admitted(peer: socket.socket, client_uid: int) -> bool:
    """Returns whether the peer is a process of this process's user or of the user `client_uid`."""
    raw = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(raw)[1]) in (os.getuid(), client_uid)


def _is_served(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(POLL_S)
        try:
            peer.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except PermissionError:
            why = f"{path.name} is the socket of another user: remove the file if no process listens there"
            raise ConfigurationError("socket", why) from None
        except OSError:
            return True  # a full queue
    return True
