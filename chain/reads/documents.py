"""Environments, model manifests and appraisal policies from events of the registry, found by their digests, and the registered
operators (`ports.Documents`). Governance and proposers publish these documents."""

from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.errors.records import UnknownEnvironment
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.units import Address, Digest
from chain.client.artifacts import Log
from chain.reads.reader import SnapshotReader


class RegistryDocuments:
    """The published documents of one network. Anybody may propose any bytes under any digest, so the reader must check the
    digest."""

    def __init__(self, reader: SnapshotReader) -> None:
        self._reader = reader

    def environment(self, digest: Digest, to_block: int) -> Environment:
        """Returns the environment with this digest. Raises `UnknownEnvironment` if no proposed document hashes to it."""
        for document in self._proposed(digest, to_block):
            try:
                found = decode(Environment, document)
            except BytewiseError:
                continue
            if found.digest == digest:
                return found
        raise UnknownEnvironment("environment", digest.hex(), "no document of it")

    def model_manifests(self, model_id: Digest, to_block: int) -> tuple[bytes, ...]:
        """Returns every manifest that was proposed for a model. The caller chooses the one with the right digest."""
        return self._proposed(model_id, to_block)

    def policy_document(self, digest: Digest, to_block: int) -> bytes:
        """Returns the bytes of an appraisal policy; the caller checks their digest. Raises `UnknownEnvironment` if none was
        published."""
        found = [log.values["document"] for log in self._registry("PolicySet", to_block) if log.values["digest"] == digest]
        if not found:
            raise UnknownEnvironment("policy", digest.hex(), "no document of it")
        return bytes(found[-1])

    def operators(self, to_block: int) -> dict[Address, str]:
        """Returns the registered operators, each with its newest endpoint."""
        logs = self._registry("OperatorRegistered", to_block)
        return {Address(log.values["operator"]): log.values["endpoint"] for log in logs}

    def _proposed(self, digest: Digest, to_block: int) -> tuple[bytes, ...]:
        logs = self._registry("ItemProposed", to_block)
        return tuple(bytes(log.values["document"]) for log in logs if log.values["digest"] == digest)

    def _registry(self, event: str, to_block: int) -> list[Log]:
        network = self._reader.network
        where = ("Registry", network.addresses.registry)
        return self._reader.client.logs(*where, [event], network.deploy_block, to_block)
