"""Signing keys: the account of a node, the rules of what it signs, key files and keystores, and anvil's published accounts."""

import dataclasses
import json
from pathlib import Path

from eth_account import Account
from eth_account.hdaccount import key_from_seed, seed_from_mnemonic

from bytewise.protocol.address_book import Network
from bytewise.protocol.errors.actors import ConfigurationError, SignerAway, SignerRefused, SigningRefused
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.evidence.appraisal_policy import TEST_CHAIN_IDS
from bytewise.protocol.signing import LABELS, TRANSACTION, TYPED, LocalSigner, Preimage
from bytewise.protocol.units import Address, Blob, address
from bytewise.service.readiness import Check
from bytewise.service.secret import Secret, read_secret, write_secret
from bytewise.service.sections import SignerSettings
from chain.sending.remote_signer import RemoteSigner, mutual_trust
from chain.sending.transactions import TX_GAS_CAP, UnsignedTransaction, read_unsigned

_WORD = 32
_SIGNER = "the key of this account"
_ANVIL_MNEMONIC = "test test test test test test test test test test test junk"


def load_signer(path: Path, password: Secret | None = None) -> LocalSigner:
    """Loads the key from a file that only its owner can read: 0x-hex, or a Web3 keystore (version 3) with its password.

    Raises `ConfigurationError` for a missing file, a file that others can read, a malformed file, or a wrong password.
    """
    content = read_secret(path).reveal()
    try:
        if content.lstrip().startswith(b"{"):
            if password is None:
                raise ConfigurationError(path.name, "is a keystore: name its password file too")
            return LocalSigner(bytes(Account.decrypt(json.loads(content), password.reveal().decode())))
        return LocalSigner(bytes.fromhex(content.decode("ascii").removeprefix("0x")))
    except (ValueError, UnicodeDecodeError, KeyError, TypeError):
        # The cause is dropped, because its text may contain the key.
        raise ConfigurationError(
            path.name, "contains no private key, or the password is wrong: name the right key file and password file"
        ) from None


def account_in_keystore(path: Path) -> Address | None:
    """Reads the account that a keystore names beside its encrypted key. Returns None if it names none, or if the file is no
    keystore."""
    try:
        named = json.loads(read_secret(path).reveal())["address"]
        return address(f"0x{named.lower().removeprefix('0x')}")
    except (ValueError, KeyError, TypeError, AttributeError, MalformedValue):
        return None


class SigningRules:
    """Rules of what an account signs: only for its network, and only up to its ceilings (ADR-017).

    The rules read the bytes to be signed, not what the caller says about them. They are checked before a local key or a remote
    signer gets the bytes. The protection table (`bytewise.storage.protection`), not these rules, prevents a second vote.
    """

    def __init__(self, network: Network, account: Address, max_value_wei: int, max_fee_wei: int) -> None:
        self._chain_id = int(network.chain_id)
        self._account = account
        self._max_value_wei = max_value_wei
        self._max_fee_wei = max_fee_wei
        self._contracts = {*dataclasses.astuple(network.addresses), *(pool.tree for pool in network.pools)}
        # Receipts; votes, commits and audit results; tickets.
        self._domains = {each.separator for each in (network.anchor_domain, network.disputes_domain, network.epochs_domain)}

    def verify(self, preimage: Preimage) -> None:
        """Raises `SigningRefused`, which names the rule and the value, if the account may not sign these bytes."""
        if preimage.startswith(TRANSACTION):
            self._verify_transaction(_read_transaction(preimage))
        elif preimage.startswith(TYPED):
            self._verify_typed(preimage)
        elif not any(preimage.startswith(label) and len(preimage) == len(label) + _WORD for label in LABELS):
            raise SigningRefused("form", f"{len(preimage)} bytes that are no transaction, no typed data and no label of ours")

    def _verify_transaction(self, made: UnsignedTransaction) -> None:
        """Raises `SigningRefused` unless the transaction is of this chain, goes to a contract of the network or only uses up a
        nonce, and keeps all ceilings."""
        if made.chain_id != self._chain_id:
            raise SigningRefused("chain id", f"a transaction of chain {made.chain_id}, the network is on {self._chain_id}")
        uses_nonce_only = made.to == self._account and not made.data and made.value_wei == 0
        if made.to not in self._contracts and not uses_nonce_only:
            raise SigningRefused("contract", f"a transaction to {made.to or 'nobody'}, which is no contract of the network")
        if made.value_wei > self._max_value_wei:
            raise SigningRefused("value", f"{made.value_wei} wei, the ceiling is {self._max_value_wei} (signer.max_value_wei)")
        if made.max_fee > self._max_fee_wei:
            raise SigningRefused("fee", f"{made.max_fee} wei per gas, the ceiling is {self._max_fee_wei} (signer.max_fee_wei)")
        if made.gas > TX_GAS_CAP:
            raise SigningRefused("gas", f"{made.gas}, the ceiling is {TX_GAS_CAP}")

    def _verify_typed(self, preimage: Preimage) -> None:
        if len(preimage) != len(TYPED) + 2 * _WORD:
            raise SigningRefused("form", f"{len(preimage)} bytes of typed data instead of {len(TYPED) + 2 * _WORD}")
        separator = preimage[len(TYPED) : len(TYPED) + _WORD]
        if separator not in self._domains:
            raise SigningRefused("domain", f"domain separator 0x{separator.hex()} is none under which this account signs")


def _read_transaction(preimage: Preimage) -> UnsignedTransaction:
    try:
        return read_unsigned(preimage)
    except MalformedValue as error:
        raise SigningRefused("form", str(error)) from None


class AccountSigner:
    """The account of a node. Its key is in this process or at a remote signer. It signs only the bytes that the signing rules
    allow (ADR-017)."""

    def __init__(self, key: LocalSigner | RemoteSigner, rules: SigningRules) -> None:
        self._key = key
        self._rules = rules
        self.address: Address = key.address

    def sign_preimage(self, preimage: Preimage) -> Blob:
        """Returns the 65-byte signature over keccak256 of the preimage. Raises `SigningRefused` if a rule forbids it, or the
        errors of the key."""
        self._rules.verify(preimage)
        return self._key.sign_preimage(preimage)

    def check(self) -> Check:
        """Returns the readiness check `signer`: can the key be used now? It signs nothing."""
        if isinstance(self._key, LocalSigner):
            return Check("signer", True, f"{self.address}, key file", _SIGNER, "Nothing to do.")
        advice = "Is the signer up, does it have this key, and does it accept this client's certificate? See [signer]."
        try:
            self._key.identify()
        except (SignerAway, SignerRefused) as error:
            return Check("signer", False, str(error), _SIGNER, advice)
        return Check("signer", True, f"{self.address} at {self._key.name}", _SIGNER, advice)


def open_signer(settings: SignerSettings, network: Network, password: Secret | None = None) -> AccountSigner:
    """Opens the account that section `[signer]` names, for one network.

    Raises the errors of `load_signer`. A remote signer is not asked yet. `password` is used for a keystore if the settings name
    no password file. A password file is read only once, because it may be a pipe.
    """
    key = _open_key(settings, password)
    return AccountSigner(key, SigningRules(network, key.address, settings.max_value_wei, settings.max_fee_wei))


def _open_key(settings: SignerSettings, password: Secret | None) -> LocalSigner | RemoteSigner:
    if settings.key_file is not None:
        file = settings.password_file
        return load_signer(settings.key_file, password if file is None else read_secret(file))
    files = settings.ca_file, settings.client_cert_file, settings.client_key_file
    assert settings.account and files[0] and files[1] and files[2], "checked by the settings"
    return RemoteSigner(settings.url, settings.account, mutual_trust(files[0], files[1], files[2]), settings.timeout_s)


def save_signer(path: Path, signer: LocalSigner) -> None:
    """Writes a key file for `load_signer`. Raises `ConfigurationError` if the file exists."""
    write_secret(path, b"0x" + signer.secret.hex().encode())


def devnet_signer(chain_id: int, index: int) -> LocalSigner:
    """Returns account `index` of anvil, whose keys are public. Raises `ConfigurationError` on a chain that is no test chain."""
    if chain_id not in TEST_CHAIN_IDS:
        raise ConfigurationError(
            "devnet account", f"exists only on test chains, not on chain {chain_id}: name a key file instead"
        )
    if not 0 <= index < 2**31:
        # In BIP-32, higher indices are hardened.
        raise ConfigurationError("devnet account", f"{index} is none: below {2**31}")
    return LocalSigner(bytes(key_from_seed(_seed(), f"m/44'/60'/0'/0/{index}")))


def _seed() -> bytes:
    return bytes(seed_from_mnemonic(_ANVIL_MNEMONIC, ""))
