"""What this package uses of web3 and eth_account, imported without the library of keystores.

`eth_account` imports `eth_keyfile`, which imports `py_ecc`, which computes tables for 0.7 seconds of processor time: two thirds
of what `import web3` costs. Only who reads or writes a keystore needs it, so it is imported then.
"""

import importlib
import sys
from types import ModuleType
from typing import Any

_KEYSTORES = "eth_keyfile"


def _create_keyfile_json(*arguments: Any, **options: Any) -> Any:
    return importlib.import_module(_KEYSTORES).create_keyfile_json(*arguments, **options)


def _decode_keyfile_json(*arguments: Any, **options: Any) -> Any:
    return importlib.import_module(_KEYSTORES).decode_keyfile_json(*arguments, **options)


def _import_accounts() -> None:
    """Imports `eth_account` with stand-ins for what it imports of `eth_keyfile`; called, they import the library."""
    if _KEYSTORES in sys.modules or "eth_account" in sys.modules:
        return
    package, module = ModuleType(_KEYSTORES), ModuleType(f"{_KEYSTORES}.keyfile")
    vars(package).update(create_keyfile_json=_create_keyfile_json, decode_keyfile_json=_decode_keyfile_json)
    vars(module).update(KDFType=str)
    sys.modules.update({package.__name__: package, module.__name__: module})
    try:
        importlib.import_module("eth_account")
    finally:
        del sys.modules[package.__name__], sys.modules[module.__name__]


_import_accounts()

from eth_account import Account  # noqa: E402
from eth_account.hdaccount import key_from_seed, seed_from_mnemonic  # noqa: E402
from eth_account.typed_transactions.typed_transaction import TypedTransaction  # noqa: E402
from web3 import HTTPProvider  # noqa: E402
from web3.types import Nonce, RPCEndpoint, RPCResponse  # noqa: E402
from web3.utils.address import get_create_address  # noqa: E402

__all__ = [
    "Account", "HTTPProvider", "Nonce", "RPCEndpoint", "RPCResponse", "TypedTransaction", "get_create_address", "key_from_seed",
    "seed_from_mnemonic",
]  # fmt: skip
