"""Reads a node for the verbs `doctor`, `status`, `register` and others: its settings, chain, account and database. Nothing is
changed."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bytewise.protocol.address_book import Network
from bytewise.protocol.errors.actors import ConfigurationError
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
from cli.node.roles import JUDGES, NodeRole, role_of
from cli.options import asked_password, needs_password
from dashboard.monitor.settings import MonitorSettings
from enclave.settings import EnclaveSettings
from kms.settings import ShardSettings
from kms.storage import keyring
from serving.settings import OperatorSettings
from verifier.settings import NodeSettings

TIMEOUT_S = 10.0
"""Longest time of one request to a chain node, in seconds."""


class NodeView:
    """One node, as its settings file describes it. Each property opens its part of the node at the first use, and raises the
    errors of that part."""

    def __init__(self, config: Path) -> None:
        self.config = config
        self.role: NodeRole = role_of(config)

    @functools.cached_property
    def settings(self) -> OperatorSettings | NodeSettings | ShardSettings | MonitorSettings:
        """The settings of the node's main process. Raises `ConfigurationError` with all problems if they are wrong."""
        if self.role is NodeRole.OPERATOR:
            return load_settings(OperatorSettings, self.config)
        if self.role is NodeRole.SHARD:
            return load_settings(ShardSettings, self.config, "shard")
        if self.role is NodeRole.MONITOR:
            return load_settings(MonitorSettings, self.config)
        return load_settings(NodeSettings, self.config)

    @functools.cached_property
    def enclave(self) -> EnclaveSettings | None:
        """The settings of the node's enclave. None if they are in another file, or if the role has no enclave."""
        if self.role in JUDGES and "enclave" in read_document(self.config):
            return load_settings(EnclaveSettings, self.config, "enclave")
        return None

    @functools.cached_property
    def network(self) -> Network:
        """The address book of the node's network."""
        return read_network(self.settings.network_file)

    @property
    def endpoints(self) -> Endpoints:
        """URLs of the chain nodes in the settings, with their quorum."""
        settings = self.settings
        return settings.rpc if isinstance(settings, ShardSettings) else settings.chain.rpc

    @functools.cached_property
    def nodes(self) -> tuple[ChainClient, ...]:
        """One client for each chain node in the settings."""
        return tuple(ChainClient(url, self.network.chain_id, TIMEOUT_S) for url in self.endpoints.urls)

    @functools.cached_property
    def chain(self) -> Chain:
        """Client of the chain that asks all chain nodes of the settings and needs their quorum to agree."""
        return open_chain(*self.endpoints, self.network.chain_id, TIMEOUT_S)

    @functools.cached_property
    def reader(self) -> SnapshotReader:
        """Reader of the contracts. Raises `ConfigurationError` if their code differs from the address book."""
        return SnapshotReader(self.chain, verify_code(self.chain, self.network))

    @functools.cached_property
    def head(self) -> int:
        """Number of the block at which everything is read: the newest block at the first use."""
        return self.reader.head()

    @property
    def da(self) -> DaSettings | None:
        """Settings of the node's DA proxies. None for a shard and a monitor."""
        settings = self.settings
        return None if isinstance(settings, ShardSettings | MonitorSettings) else settings.da

    @property
    def signer_settings(self) -> SignerSettings | None:
        """Settings of the node's account key. None for a shard, whose key is sealed in its folder, and for a monitor."""
        settings = self.settings
        return None if isinstance(settings, ShardSettings | MonitorSettings) else settings.signer

    @functools.cached_property
    def signer(self) -> AccountSigner:
        """Signer of the node's account. A shard and a monitor have none. If the settings name no file with the keystore's
        password, the user is asked for it at the terminal."""
        settings = self.signer_settings
        assert settings is not None, "a shard's account is sealed"
        found = open_signer(settings, self.network, asked_password(settings.key_file, settings.password_file))
        if self._named_account not in (None, found.address):
            raise ConfigurationError("signer.key_file", f"names {self._named_account}, and its key is of {found.address}")
        return found

    @property
    def account(self) -> Address:
        """The node's account. It is read without a password if the keystore names it."""
        settings = self.settings
        if isinstance(settings, ShardSettings):
            return keyring.address_of(settings.folder)
        return self._named_account or self.signer.address

    @functools.cached_property
    def _named_account(self) -> Address | None:
        """The account that the keystore names, if a person would have to type the keystore's password. None in all other cases,
        because the key itself can then be opened."""
        settings = self.signer_settings
        if settings is None or settings.key_file is None or not needs_password(settings.key_file, settings.password_file):
            return None
        return account_in_keystore(settings.key_file)

    @property
    def database_url(self) -> str:
        """URL of the node's database."""
        settings = self.settings
        return settings.database_url if isinstance(settings, ShardSettings) else settings.db.location

    @functools.cached_property
    def database(self) -> Any:
        """Engine of the node's database. Raises `ConfigurationError` if the database does not have this program's revision. A
        monitor's database is not checked, because the monitor creates its tables itself."""
        engine = open_database(self.database_url)
        if self.role is not NodeRole.MONITOR:
            check_revision(engine)
        return engine


CheckOfNode = Callable[[NodeView], Check]
"""A function that runs one check of `bytewise doctor` for a node."""
