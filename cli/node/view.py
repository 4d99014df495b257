"""A node as `doctor`, `status` and `register` see it. Its parts are opened one at a time from the settings. Nothing is
changed."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bytewise.protocol.address_book import Network
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.keys.ceremony import ShardContact
from bytewise.protocol.units import Address
from bytewise.service.readiness import Check
from bytewise.service.sections import DaSettings, SignerSettings
from bytewise.service.settings import Endpoints, load_settings, read_document
from bytewise.storage.engine import check_revision, open_database
from chain.client.access import Chain, open_chain
from chain.client.address_book import read_network, verify_code
from chain.client.rpc import ChainClient
from chain.reads.reader import SnapshotReader
from chain.sending.keys import AccountSigner, account_in_keystore, open_signer
from cli.node.password import asked_password, needs_password
from cli.node.roles import JUDGES, NodeRole, role_of
from dashboard.monitor.settings import MonitorSettings
from enclave.settings import EnclaveSettings
from kms.settings import ShardSettings
from kms.storage import keyring
from serving.settings import OperatorSettings
from verifier.settings import NodeSettings

TIMEOUT_S = 10.0
"""Longest time of one call to a chain node, in seconds."""


class NodeView:
    """One node. Each property opens its part at the first use, and raises the errors of that part."""

    def __init__(self, config: Path) -> None:
        self.config = config
        self.role: NodeRole = role_of(config)

    @functools.cached_property
    def settings(self) -> OperatorSettings | NodeSettings | ShardSettings | MonitorSettings:
        """The settings of the node's main process. `ConfigurationError` lists every problem."""
        if self.role is NodeRole.OPERATOR:
            return load_settings(OperatorSettings, self.config)
        if self.role is NodeRole.SHARD:
            return load_settings(ShardSettings, self.config, "shard")
        if self.role is NodeRole.MONITOR:
            return load_settings(MonitorSettings, self.config)
        return load_settings(NodeSettings, self.config)

    @functools.cached_property
    def enclave(self) -> EnclaveSettings | None:
        """The settings of the node's enclave; None if they are in another file, or the role has no enclave."""
        if self.role in JUDGES and "enclave" in read_document(self.config):
            return load_settings(EnclaveSettings, self.config, "enclave")
        return None

    @functools.cached_property
    def network(self) -> Network:
        """The address book."""
        return read_network(self.settings.network_file)

    @property
    def endpoints(self) -> Endpoints:
        """Chain nodes that it asks."""
        settings = self.settings
        return settings.rpc if isinstance(settings, ShardSettings) else settings.chain.rpc

    @functools.cached_property
    def nodes(self) -> tuple[ChainClient, ...]:
        """A client for each of them."""
        return tuple(ChainClient(url, self.network.chain_id, TIMEOUT_S) for url in self.endpoints.urls)

    @functools.cached_property
    def chain(self) -> Chain:
        """The chain as the node sees it, with its quorum."""
        return open_chain(*self.endpoints, self.network.chain_id, TIMEOUT_S)

    @functools.cached_property
    def reader(self) -> SnapshotReader:
        """Reads of the contracts. `ConfigurationError` unless their code is that of the address book."""
        return SnapshotReader(self.chain, verify_code(self.chain, self.network))

    @functools.cached_property
    def head(self) -> int:
        """The block at which everything is read."""
        return self.reader.head()

    @property
    def da(self) -> DaSettings | None:
        """The node's DA proxies; a shard and a monitor have none."""
        settings = self.settings
        return None if isinstance(settings, ShardSettings | MonitorSettings) else settings.da

    @property
    def signer_settings(self) -> SignerSettings | None:
        """Settings of the node's account key. None for a shard, whose key is sealed in its folder, and for a monitor."""
        settings = self.settings
        return None if isinstance(settings, ShardSettings | MonitorSettings) else settings.signer

    @functools.cached_property
    def signer(self) -> AccountSigner:
        """The signer of its account. Only roles with an account of this kind have it. A person types the password of a
        keystore at a terminal if the settings name no file for it."""
        settings = self.signer_settings
        assert settings is not None, "a shard's account is sealed"
        found = open_signer(settings, self.network, asked_password(settings.key_file, settings.password_file))
        if self._named_account not in (None, found.address):
            raise ConfigurationError("signer.key_file", f"names {self._named_account}, and its key is of {found.address}")
        return found

    @property
    def account(self) -> Address:
        """The node's account. It needs no password where the keystore names the account."""
        settings = self.settings
        if isinstance(settings, ShardSettings):
            return decode(ShardContact, (settings.folder / keyring.ENTRY).read_bytes()).address
        return self._named_account or self.signer.address

    @functools.cached_property
    def _named_account(self) -> Address | None:
        """The account that the keystore names, if only a person has its password."""
        settings = self.signer_settings
        if settings is None or settings.key_file is None or not needs_password(settings.key_file, settings.password_file):
            return None
        return account_in_keystore(settings.key_file)

    @property
    def database_url(self) -> str:
        """URL of its database."""
        settings = self.settings
        return settings.database_url if isinstance(settings, ShardSettings) else settings.db.location

    @functools.cached_property
    def database(self) -> Any:
        """Its database. `ConfigurationError` unless it is migrated to this program's revision; a monitor's makes itself."""
        engine = open_database(self.database_url)
        if self.role is not NodeRole.MONITOR:
            check_revision(engine)
        return engine


CheckOfNode = Callable[[NodeView], Check]
"""One check of `bytewise doctor`."""
