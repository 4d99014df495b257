"""Acts on stake that EigenLayer holds, where a network has `EigenLayerStake` in the place of its vault; anybody may."""

from bytewise.protocol.units import Address, Digest
from chain.acts.base import Acts


class EigenLayerActs(Acts):
    """What keeps weights young, and brings late what EigenLayer did not take or pay at once."""

    def sync_stake(self, account: Address, block: int) -> None:
        """Records what an account has now; once for each `block` that gave the reason: a record loses its weight with age."""
        self._act("EigenLayerStake", "sync", bytes.fromhex(account[2:]) + block.to_bytes(8, "big"), (account,))

    def retry_slash(self, account: Address, ref: Digest, times: int) -> None:
        """Slashes what EigenLayer refused for `ref`; once for each of the `times` that it has refused so far."""
        subject = bytes.fromhex(account[2:]) + ref + times.to_bytes(8, "big")
        self._act("EigenLayerStake", "retry", subject, (account, ref))

    def collect_slash(self, slash_id: int) -> None:
        """Brings what a slash took to its pot, once EigenLayer pays."""
        self._act("EigenLayerStake", "collect", slash_id.to_bytes(32, "big"), (slash_id,))

    def sweep_stake(self) -> None:
        """Brings what lies at the adapter and is owed to no pot to a pot that nobody is paid from."""
        self._again("EigenLayerStake", "sweep")
