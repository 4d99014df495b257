"""Keys come from files that only their owner can read, and never appear."""

import json
from pathlib import Path

import pytest
from eth_account import Account

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.signing import LocalSigner
from bytewise.service.secret import Secret, write_secret
from chain.sending.keys import account_in_keystore, devnet_signer, load_signer, save_signer

KEY = bytes(range(32, 64))


def test_a_key_file_gives_its_signer_back(tmp_path: Path) -> None:
    path = tmp_path / "key"
    save_signer(path, LocalSigner(KEY))
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_signer(path).address == LocalSigner(KEY).address
    assert KEY.hex() not in repr(load_signer(path))
    with pytest.raises(ConfigurationError, match="never overwritten"):
        save_signer(path, LocalSigner(KEY))


def test_a_keystore_opens_with_its_password(tmp_path: Path) -> None:
    path = tmp_path / "keystore"
    write_secret(path, json.dumps(Account.encrypt(KEY, "right", kdf="pbkdf2", iterations=2)).encode())
    assert load_signer(path, Secret(b"right")).address == LocalSigner(KEY).address
    for password in (None, Secret(b"wrong")):
        with pytest.raises(ConfigurationError) as caught:
            load_signer(path, password)
        assert KEY.hex() not in str(caught.value)


def test_keystore_names_its_account_without_a_password(tmp_path: Path) -> None:
    stored, account = Account.encrypt(KEY, "right", kdf="pbkdf2", iterations=2), LocalSigner(KEY).address
    for number, (content, named) in enumerate(
        [
            (stored, account), (stored | {"address": account}, account), (stored | {"address": "0x12"}, None),
            (stored | {"address": 3}, None), ({"crypto": {}}, None), ([], None),
        ]
    ):  # fmt: skip
        write_secret(tmp_path / str(number), json.dumps(content).encode())
        assert account_in_keystore(tmp_path / str(number)) == named
    save_signer(tmp_path / "key", LocalSigner(KEY))
    assert account_in_keystore(tmp_path / "key") is None


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    save_signer(path, LocalSigner(KEY))
    path.chmod(0o640)
    with pytest.raises(ConfigurationError, match="only the owner"):
        load_signer(path)


@pytest.mark.parametrize("content", [b"0x12", b"", b"zz" * 32, b"{}", b"\xff" * 32, b"0x" + b"00" * 32, b"ff" * 32])
def test_a_file_without_a_key_is_refused_without_quoting_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigurationError, match="key"):
        load_signer(path, Secret(b"password"))


def test_devnet_accounts_are_anvils_and_only_for_test_chains() -> None:
    assert devnet_signer(31337, 0).address == "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
    with pytest.raises(ConfigurationError):
        devnet_signer(1, 0)
