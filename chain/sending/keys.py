"""Signing keys: from the owner's key file, a Web3 keystore, or anvil's published accounts on a test chain."""

import json
from pathlib import Path

from eth_account import Account
from eth_account.hdaccount import key_from_seed, seed_from_mnemonic

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.evidence.appraisal_policy import TEST_CHAIN_IDS
from bytewise.protocol.signing import LocalSigner
from bytewise.service.secret import Secret, read_secret, write_secret
from bytewise.service.sections import SignerSettings

_ANVIL_MNEMONIC = "test test test test test test test test test test test junk"


def load_signer(path: Path, password: Secret | None = None) -> LocalSigner:
    """The key in a file that only its owner can read: 0x-hex, or a Web3 keystore (version 3) with its password.

    `ConfigurationError` for a missing file, a file that others can read, a malformed file, or a wrong password.
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


def open_signer(settings: SignerSettings) -> LocalSigner:
    """The account that section `[signer]` names; errors as `load_signer`."""
    return load_signer(settings.key_file, None if settings.password_file is None else read_secret(settings.password_file))


def save_signer(path: Path, signer: LocalSigner) -> None:
    """Writes a key file for `load_signer`; `ConfigurationError` if it exists."""
    write_secret(path, b"0x" + signer.secret.hex().encode())


def devnet_signer(chain_id: int, index: int) -> LocalSigner:
    """Account `index` of anvil, whose keys are public. `ConfigurationError` on a chain with real money."""
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
