"""Keeps HTTP clients and clients of model hubs out of the enclave.

`torch` and `transformers` import names from such clients when they load, although the enclave loads no model from a hub. This
module gives the two libraries stub modules that have these names. The few names that the libraries use have harmless values. Any
other name of a stub raises an error when it is called. Any other import of a client raises an error that names the client
(ADR-057).
"""

import importlib
import importlib.abc
import importlib.machinery
import re
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import NoReturn

HUB = "huggingface_hub"
BLOCKED = frozenset({
    "aiohttp", "hf_xet", "http.client", "httpcore", "httpcore2", "httpx", "httpx2", HUB, "requests", "urllib.request", "urllib3",
})  # fmt: skip
"""Modules that this process cannot load, with all their submodules except `ALLOWED`."""

ALLOWED = frozenset({f"{HUB}.constants", f"{HUB}.dataclasses", f"{HUB}.errors"})
"""Submodules of blocked modules that may be loaded, because they are no clients. The configurations of transformers use them to
check themselves."""

_ERRORS = (
    "EntryNotFoundError", "GatedRepoError", "HfHubHTTPError", "LocalEntryNotFoundError", "OfflineModeIsEnabled",
    "RepositoryNotFoundError", "RevisionNotFoundError",
)  # fmt: skip
_UNUSED: dict[str, Sequence[str]] = {
    "urllib.request": ("Request", "urlopen"),
    "httpx2": ("Response",),
    HUB: (
        "CommitOperationAdd", "Discussion", "HfApi", "ModelCard", "ModelCardData", "ResolvedRevision", "get_repo_discussions",
        "hf_hub_download", "hf_hub_url", "snapshot_download", "split_torch_state_dict_into_shards", "try_to_load_from_cache",
    ),
    f"{HUB}.utils": ("build_hf_headers", "get_session", "hf_raise_for_status"),
    f"{HUB}.file_download": (),
}  # fmt: skip
"""Names that each stub module has and that raise an error when they are called."""


class ImportBlocked(ImportError):
    """Raised for an import of a client that has no stub, for a name that a stub does not have, and for a call of a stub's
    name. Also raised if a client was loaded before `block_imports`."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is blocked in the enclave")


class _StubFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import finder that finds the stub of each client before any other finder finds the client itself."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns the import specification of the stub for a blocked module. Returns None for other modules, so that other
        finders handle them."""
        if name in ALLOWED or not {name, name.split(".")[0]} & BLOCKED:
            return None
        spec = importlib.machinery.ModuleSpec(name, self)
        if name == HUB:
            package = importlib.machinery.PathFinder.find_spec(name)
            # Path of the package, so that the allowed submodules are found.
            spec.submodule_search_locations = list((package and package.submodule_search_locations) or ())
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """Fills the stub module with its names. Raises `ImportBlocked` for a client without a stub."""
        name = module.__name__
        if name not in _UNUSED:
            raise ImportBlocked(name)
        unused = {each: _unused(f"{name}.{each}") for each in _UNUSED[name]}
        vars(module).update(unused, __getattr__=_rest(name), **_used(name))


def _rest(module: str) -> Callable[[str], object]:
    def lookup(name: str) -> object:
        whole = f"{module}.{name}"
        if name.startswith("__"):
            raise AttributeError(whole)
        if whole in ALLOWED:
            return importlib.import_module(whole)
        raise ImportBlocked(whole)

    return lookup


def _unused(whole: str) -> type:
    """Returns a class that can appear in a type or an `except` clause, but raises `ImportBlocked` when it is called."""

    def refuse(_kind: type, *_: object, **__: object) -> NoReturn:
        raise ImportBlocked(whole)

    return type(whole.split(".")[-1], (Exception,), {"__new__": refuse})


def _used(module: str) -> dict[str, object]:
    """Returns the names that libraries use after the import, with values that fit a machine without a hub."""
    if module == "httpx2":
        return {"HTTPError": type("HTTPError", (Exception,), {})}
    if module == HUB:
        return {"is_offline_mode": lambda: True, "_CACHED_NO_EXIST": object()}
    if module == f"{HUB}.utils":
        errors = importlib.import_module(f"{HUB}.errors")
        bars = {"are_progress_bars_disabled": lambda: True, "disable_progress_bars": lambda: None}
        return {name: getattr(errors, name) for name in _ERRORS} | bars | {"httpx": importlib.import_module("httpx2")}
    if module == f"{HUB}.file_download":
        return {"REGEX_COMMIT_HASH": re.compile("[0-9a-f]{40}")}
    return {}


def block_imports() -> None:
    """Blocks the clients from now on. Raises `ImportBlocked` if a client is already loaded."""
    here = sorted(BLOCKED & set(sys.modules))
    if here:
        raise ImportBlocked(f"{here[0]}, which is loaded already,")
    sys.meta_path.insert(0, _StubFinder())
