"""Keeps Python's own HTTP client out of the enclave: `torch` imports it for a model hub that nobody here asks."""

import importlib
import sys
from types import ModuleType
from typing import Any

HTTP_CLIENT = "urllib.request"
"""What brings `http.client` along."""
_FOR_TORCH = ("Request", "urlopen")


class _Absent(ModuleType):
    """Has what torch asks for, which does nothing; to who asks for more it is the real one.

    That is transformers' hub client, which computes in some enclaves (`docs/enclave.md`, "Processes").
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _FOR_TORCH:
            return _refuse
        sys.modules.pop(HTTP_CLIENT, None)
        return getattr(importlib.import_module(HTTP_CLIENT), name)


def _refuse(*_: object, **__: object) -> None:
    raise ImportError(f"{HTTP_CLIENT} is kept out of the enclave")


def keep_out() -> None:
    """From now on torch gets a stand-in that refuses; before anybody has imported the client."""
    sys.modules.setdefault(HTTP_CLIENT, _Absent(HTTP_CLIENT))
