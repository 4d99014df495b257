"""How long a verb waits for DA."""

import threading
from pathlib import Path

import pytest

from bytewise.protocol.errors.actors import BadCertificate, ConfigurationError, FailOver, TryAgain
from bytewise_client.connection import Accept, BoundedStore, connected


def test_a_store_that_never_answers_is_asked_once() -> None:
    asked: list[str] = []
    never = threading.Event()

    def get(locator: str, accept: Accept | None) -> bytes:
        asked.append(locator)
        never.wait()
        return b""

    store = BoundedStore(get, 0.05)
    for locator in ("first", "second"):
        with pytest.raises(TryAgain, match="brought nothing"):
            store.get(locator)
    never.set()
    assert asked == ["first"]


def test_store_errors_are_its_own_and_blob_errors_do_not_count() -> None:
    answers: dict[str, bytes | Exception] = {
        "blob": b"bytes",
        "bad": BadCertificate("bad", "418"),
        "busy": FailOver("proxy", "busy"),
    }

    def get(locator: str, accept: Accept | None) -> bytes:
        found = answers[locator]
        if isinstance(found, Exception):
            raise found
        return found

    store = BoundedStore(get, 60.0)
    assert store.get("blob") == store.get("blob") == b"bytes"
    with pytest.raises(BadCertificate):
        store.get("bad")
    with pytest.raises(FailOver):
        store.get("busy")
    with pytest.raises(KeyError):
        store.get("of no use")


def test_malformed_url_of_a_store_is_named_before_anything_is_read(tmp_path: Path) -> None:
    for url in ("http://127.0.0.1:310o", "ftp://store", "127.0.0.1:3100"):
        with pytest.raises(ConfigurationError, match=f"--da: {url} is no URL"), connected(tmp_path / "absent", [], [url]):
            pass
