"""The file of a member's certificate key."""

from pathlib import Path

import pytest

from bytewise.protocol.errors.actors import ConfigurationError
from committee.__main__ import bls_signer


def test_certificate_key_is_made_once_with_mode_0600(tmp_path: Path) -> None:
    made = bls_signer(tmp_path / "bls.key")
    assert (tmp_path / "bls.key").stat().st_mode & 0o777 == 0o600
    assert bls_signer(tmp_path / "bls.key").public_key == made.public_key


@pytest.mark.parametrize("text", ["", "no hex", "00" * 32, "ff" * 32, "11" * 31])
def test_file_without_a_certificate_key_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "bls.key").write_text(text)
    (tmp_path / "bls.key").chmod(0o600)
    with pytest.raises(ConfigurationError):
        bls_signer(tmp_path / "bls.key")
