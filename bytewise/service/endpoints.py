"""The chain endpoints of an actor, as its settings name them: `rpc_url` for one, `rpc_urls` and `rpc_quorum` for several."""

from typing import NamedTuple

from bytewise.protocol.errors import ConfigurationError


class Endpoints(NamedTuple):
    """Endpoints of one chain, and how many of them must give an answer for it to count."""

    urls: tuple[str, ...]
    """JSON-RPC URLs; errors and logs name them by their places, for a URL may hold a key."""
    quorum: int
    """More than half of them."""


def rpc_endpoints(url: str, urls: tuple[str, ...], quorum: int) -> Endpoints:
    """The endpoints of a process's settings; `quorum` 0 stands for the smallest majority.

    `ConfigurationError` for none or both kinds of setting, for one endpoint that is to count twice, and for a quorum that two
    different answers could both reach.
    """
    if bool(url) == bool(urls):
        raise ConfigurationError("chain endpoints", "set rpc_url, or rpc_urls, and not both")
    given = (url,) if url else urls
    if len({each.rstrip("/") for each in given}) != len(given) or not all(given):
        raise ConfigurationError("rpc_urls", "one is empty, or named twice")
    wanted = quorum or len(given) // 2 + 1
    if not len(given) < 2 * wanted <= 2 * len(given):
        raise ConfigurationError("rpc_quorum", f"{wanted} of {len(given)}: must be more than half of them, and at most all")
    return Endpoints(given, wanted)
