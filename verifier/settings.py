"""Settings of a duty process: `bytewise verifier run` and `bytewise member run` read the same file format."""

import enum
from dataclasses import dataclass, field
from pathlib import Path

from bytewise.protocol.decisions.audits import WatchPolicy
from bytewise.protocol.decisions.demands import DemandPolicy
from bytewise.protocol.decisions.disputes import MovePolicy, VotePolicy
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.settings import DatabaseUrl, Endpoints, rpc_endpoints


class Role(enum.StrEnum):
    """What the process does."""

    WATCHTOWER = "watchtower"
    """Checks receipts and challenges on posted audits; no stake, no enclave."""
    VERIFIER = "verifier"
    """Checks receipts and runs light audits in its enclave; `committee` adds votes."""


@dataclass(frozen=True, slots=True)
class HintListener:
    """Where a watchtower takes hints."""

    port: int
    """Port of its own."""
    certificate_file: Path
    """TLS certificate, PEM; auditors pin it."""
    tls_key_file: Path
    """Its private key, PEM, mode 0600."""
    host: str = "127.0.0.1"
    """Address to listen on."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """One duty process. Times are seconds of wall clock unless they say chain time."""

    role: Role
    """What it does."""
    network_file: Path
    """Address book."""
    key_file: Path
    """Account key: 32 bytes in hex, readable by the owner only."""
    database: DatabaseUrl
    """SQLAlchemy URL of its own migrated database."""
    journal_key_file: Path
    """Ed25519 key of the journal; made at the first start."""
    da_urls: tuple[str, ...]
    """EigenDA proxies, in order of preference."""
    rpc_url: str = ""
    """JSON-RPC of a chain node; this, or `rpc_urls`."""
    rpc_urls: tuple[str, ...] = ()
    """JSON-RPC of several nodes, best by different providers: what fewer than `rpc_quorum` say alike is not acted on."""
    rpc_quorum: int = 0
    """How many of `rpc_urls` must agree; 0: more than half."""
    enclave_socket: Path | None = None
    """Job socket of the own enclave; needed by role verifier."""
    confirmations: int = 2
    """Blocks after which an own transaction is believed."""
    poll_s: float = 0.5
    """Pause between ticks."""
    rpc_timeout_s: float = 10.0
    """One chain call."""
    da_timeout_s: float = 10.0
    """One DA call."""
    prepare_timeout_s: float = 30.0
    """How long the enclave may be busy with something else."""
    fetch_deadline_s: int = 60
    """Chain time after anchoring when missing bytes become the finding Withheld."""
    ticket_ttl_s: int = 120
    """Chain time for which a ticket is valid."""
    audit_margin_s: int = 5
    """Chain time before the end of the window when no audit starts any more."""
    audits: bool = True
    """Whether drawn light audits are run and posted."""
    challenges: bool = True
    """Whether a watchtower opens disputes."""
    demands: bool = True
    """Whether a watchtower demands what is withheld; anybody follows demands, and ends those that nobody answered."""
    inbox_folder: Path | None = None
    """Folder in which clients' receipts are put: the `receipt.signed` member of an answer, a file `….json` each."""
    hints: HintListener | None = None
    """Where a watchtower hears from auditors what the verdict will say; without it the opener's share is never its own."""
    hint_urls: tuple[str, ...] = ()
    """Watchtowers that an auditor tells what it found, `https://…` each."""
    hint_certificate_file: Path | None = None
    """Their certificates, PEM; needed with `hint_urls`."""
    moves: MovePolicy = field(default_factory=MovePolicy)
    """Moves that anybody may make."""
    votes: VotePolicy = field(default_factory=VotePolicy)
    """Own seats."""
    watch: WatchPolicy = field(default_factory=WatchPolicy)
    """When a watchtower risks its bond."""
    demand: DemandPolicy = field(default_factory=DemandPolicy)
    """When a watchtower risks the bond of a demand."""
    ready_file: Path | None = None
    """Written after the first complete tick, for whoever started the process."""

    def __post_init__(self) -> None:
        if self.role is Role.VERIFIER and self.enclave_socket is None:
            raise ConfigurationError("enclave_socket", "role verifier needs one")
        if self.hint_urls and self.hint_certificate_file is None:
            raise ConfigurationError("hint_certificate_file", "hint_urls need one")
        if not self.da_urls:
            raise ConfigurationError("da_urls", "none")
        # Whatever is wrong with them is said at the start.
        _ = self.rpc

    @property
    def rpc(self) -> Endpoints:
        """The chain's endpoints."""
        return rpc_endpoints(self.rpc_url, self.rpc_urls, self.rpc_quorum)
