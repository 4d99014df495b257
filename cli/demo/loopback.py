"""The loopback interface: in a fresh network namespace (`unshare -rn`) it is down, and whoever may should bring it up."""

import fcntl
import socket
import struct

from bytewise.protocol.errors import ConfigurationError

_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1
"""SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP (netdevice(7))."""


def ensure_up() -> None:
    """Loopback is up afterwards; `ConfigurationError` where it is down and this user may not change it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        request = struct.pack("16sh14s", b"lo", 0, b"")
        flags = struct.unpack("16sh14s", fcntl.ioctl(handle, _GET_FLAGS, request))[1]
        if flags & _UP:
            return
        try:
            fcntl.ioctl(handle, _SET_FLAGS, struct.pack("16sh14s", b"lo", flags | _UP, b""))
        except PermissionError:
            raise ConfigurationError("loopback", "is down; bring it up with `ip link set lo up`") from None
