"""Holders of the roles of the network's `AccessManager`, from its events."""

from collections.abc import Mapping

from bytewise.protocol.address_book import Network
from bytewise.protocol.units import Address
from chain.client.rpc import reading_answer
from chain.reads.reader import SnapshotReader

ROLES: Mapping[int, str] = {
    0: "ADMIN", 1: "PARAMS", 2: "SLASHER_ADMIN", 3: "TREASURY", 4: "GUARDIAN", 5: "CURATOR",
}  # fmt: skip
"""Role numbers of `Charter`; 0 is OpenZeppelin's."""


def holders(reader: SnapshotReader, block: int) -> dict[str, tuple[Address, ...]]:
    """Returns the holders of each role at a block, in the order of the grants. A role without a name appears by its number."""
    network = reader.network
    where = ("AccessManager", network.addresses.access_manager)
    logs = reader.client.logs(*where, ["RoleGranted", "RoleRevoked"], network.deploy_block, block)
    held: dict[int, dict[Address, None]] = {}
    with reading_answer("roles"):
        for log in logs:
            of_role = held.setdefault(log.values["roleId"], {})
            if log.event == "RoleGranted":
                of_role[Address(log.values["account"])] = None
            else:
                of_role.pop(Address(log.values["account"]), None)
    return {ROLES.get(role, str(role)): tuple(accounts) for role, accounts in sorted(held.items())}


def irregularities(network: Network, held: Mapping[str, tuple[Address, ...]]) -> tuple[str, ...]:
    """Returns messages about violations of the rule that only the timelocks have the roles which move stake, money and
    parameters."""
    at = network.addresses
    expected = {"ADMIN": at.long_timelock, "SLASHER_ADMIN": at.long_timelock, "PARAMS": at.short_timelock}
    expected["TREASURY"] = at.short_timelock
    return tuple(
        f"{role} is held by {', '.join(held.get(role, ())) or 'nobody'}, should be by {owner}"
        for role, owner in expected.items()
        if held.get(role, ()) != (owner,)
    )
