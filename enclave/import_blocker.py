"""Keeps HTTP and hub clients out of the enclave.

`torch` and `transformers` import names of clients when they are loaded, for models that would come from a hub. They get
stand-ins, which have those names and refuse to be used; what else is asked of a client is refused by its name (ADR-047).
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
CLIENTS = frozenset({
    "aiohttp", "hf_xet", "http.client", "httpcore", "httpcore2", "httpx", "httpx2", HUB, "requests", "urllib.request", "urllib3",
})  # fmt: skip
"""Modules that nobody gets in this process, with all that is below them."""

PLAIN = frozenset({f"{HUB}.constants", f"{HUB}.dataclasses", f"{HUB}.errors"})
"""What is below them and no client: how transformers' configurations check themselves, and names. These are the package's own."""

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
"""What each stand-in has and refuses."""


class KeptOut(ImportError):
    """Something needs a client, or more of one than its stand-in has."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is kept out of the enclave")


class _StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the stand-in of each client, before anybody finds the client."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Of a client or what is below one; of everything else nothing, so that others find it."""
        if name in PLAIN or not {name, name.split(".")[0]} & CLIENTS:
            return None
        spec = importlib.machinery.ModuleSpec(name, self)
        if name == HUB:
            package = importlib.machinery.PathFinder.find_spec(name)
            # Where the plain modules are.
            spec.submodule_search_locations = list((package and package.submodule_search_locations) or ())
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """Gives it its names; `KeptOut` for a client that has no stand-in."""
        name = module.__name__
        if name not in _UNUSED:
            raise KeptOut(name)
        unused = {each: _unused(f"{name}.{each}") for each in _UNUSED[name]}
        vars(module).update(unused, __getattr__=_rest(name), **_used(name))


def _rest(module: str) -> Callable[[str], object]:
    def lookup(name: str) -> object:
        whole = f"{module}.{name}"
        if name.startswith("__"):
            raise AttributeError(whole)
        if whole in PLAIN:
            return importlib.import_module(whole)
        raise KeptOut(whole)

    return lookup


def _unused(whole: str) -> type:
    """A function or class in name: it can stand in a type or an `except` clause, and cannot be called."""

    def refuse(_kind: type, *_: object, **__: object) -> NoReturn:
        raise KeptOut(whole)

    return type(whole.split(".")[-1], (Exception,), {"__new__": refuse})


def _used(module: str) -> dict[str, object]:
    """Names that are more than imported, with what they mean where there is no hub."""
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


def keep_out() -> None:
    """From now on nobody gets a client; `KeptOut` names one that somebody has already."""
    here = sorted(CLIENTS & set(sys.modules))
    if here:
        raise KeptOut(f"{here[0]}, which is loaded already,")
    sys.meta_path.insert(0, _StandIns())
