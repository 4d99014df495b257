"""Capsules on the pages: offered and told what they show; a wrong, swapped or endless file proves nothing."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from bytewise.protocol.records.preflight import PreflightPoint
from chain.capsule.schema import MAX_BYTES, SUFFIX
from chain.capsule.verification import verify_capsule
from tests.fixtures.dashboard.site import RecordedSite, recorded, served

WAIT_S = 120.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a node's capsules."""
    made = tmp_path / "capsules"
    made.mkdir()
    return made


@pytest.fixture
def client(tmp_path: Path, folder: Path) -> Iterator[httpx2.Client]:
    """A visitor."""
    with served(RecordedSite(tmp_path, capsules=folder).app) as url, httpx2.Client(base_url=url, timeout=WAIT_S) as made:
        yield made


def dispute(client: httpx2.Client, verdict: str = "overturned") -> dict[str, Any]:
    """A dispute as the API tells it."""
    (found,) = client.get(f"/api/v1/disputes?verdict={verdict}").json()["items"]
    told: dict[str, Any] = client.get(f"/api/v1/disputes/{found['id']}").json()["data"]
    return told


def keep(folder: Path, id_: str, data: bytes) -> None:
    """A node writes a capsule."""
    (folder / f"{id_}{SUFFIX}").write_bytes(data)


def test_page_offers_the_capsule_and_says_what_it_shows(client: httpx2.Client, folder: Path) -> None:
    before = dispute(client)
    assert before["capsule"] is None and client.get(f"/disputes/{before['id']}/capsule").status_code == 404
    assert f"bytewise capsule make {before['id']}" in client.get(f"/disputes/{before['id']}").text
    keep(folder, before["id"], recorded().capsule)
    note = dispute(client)["capsule"]
    assert not note["is_wrong"] and any("OVERTURNED" in line for line in note["shows"])
    answer = client.get(note["url"])
    assert answer.content == recorded().capsule and f'filename="{before["id"]}{SUFFIX}"' in answer.headers["content-disposition"]
    assert verify_capsule(answer.content, recorded().trust).digest.hex() == note["sha256"][2:]
    html = client.get(f"/disputes/{before['id']}").text
    assert "Download the capsule" in html and "OVERTURNED" in html


def test_receipt_page_has_the_eleven_points(client: httpx2.Client, folder: Path) -> None:
    case = dispute(client)
    keep(folder, case["id"], recorded().capsule)
    html = client.get(f"/receipts/{case['receipt_id']}").text
    data = client.get(f"/api/v1/receipts/{case['receipt_id']}").json()["data"]["capsule"]
    assert [line["words"] for line in data["preflight"]] == [point.value for point in PreflightPoint]
    assert all(line["words"] in html for line in data["preflight"]) and data["claim"] in html


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _flipped(data: bytes) -> bytes:
    place = data.index(b'"storage') + 400
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


@pytest.mark.parametrize("lie", [_cut, _flipped, lambda _: b"", lambda _: b"{}", lambda _: b"[" * 10_000])
def test_wrong_capsule_proves_nothing(client: httpx2.Client, folder: Path, lie: Callable[[bytes], bytes]) -> None:
    case = dispute(client)
    keep(folder, case["id"], lie(recorded().capsule))
    note = dispute(client)["capsule"]
    assert note["is_wrong"] and note["shows"] == [] and note["preflight"] == [] and note["conditions"]
    html = client.get(f"/disputes/{case['id']}").text
    assert "Do not rely on the capsule" in html and "Download the capsule" not in html


def test_capsule_of_another_dispute_is_named(client: httpx2.Client, folder: Path) -> None:
    other = dispute(client, "none")
    keep(folder, other["id"], recorded().capsule)
    note = dispute(client, "none")["capsule"]
    assert note["is_wrong"] and note["conditions"] == ["It is of another dispute than its name says."]


def test_endless_or_unreadable_file_is_no_capsule(client: httpx2.Client, folder: Path) -> None:
    case = dispute(client)
    with (folder / f"{case['id']}{SUFFIX}").open("wb") as stream:
        stream.truncate(100 * 2**20 + MAX_BYTES)
    assert dispute(client)["capsule"] is None and client.get(f"/disputes/{case['id']}/capsule").status_code == 404
    (folder / f"{case['id']}{SUFFIX}").unlink()
    (folder / f"{case['id']}{SUFFIX}").mkdir()
    assert dispute(client)["capsule"] is None and client.get(f"/disputes/{case['id']}/capsule").status_code == 404
    for name in ("..%2f..%2fetc%2fpasswd", "0x" + "00" * 31, "0x" + "zz" * 32):
        assert client.get(f"/disputes/{name}/capsule").status_code in (400, 404), "no other file is served"


def test_no_cache_keeps_what_a_capsule_was(client: httpx2.Client, folder: Path) -> None:
    case = dispute(client)
    paths = [f"/disputes/{case['id']}", f"/api/v1/disputes/{case['id']}", f"/receipts/{case['receipt_id']}"]
    for data in (recorded().capsule, _cut(recorded().capsule)):
        tags = {path: client.get(path).headers["etag"] for path in paths}
        assert all(client.get(path, headers={"if-none-match": tags[path]}).status_code == 304 for path in paths)
        keep(folder, case["id"], data)
        assert all(client.get(path, headers={"if-none-match": tags[path]}).status_code == 200 for path in paths)
        assert dispute(client)["capsule"]["is_wrong"] == (data != recorded().capsule), "a replaced one is verified again"
    final = client.get("/api/v1/meta").json()["finalized"]
    assert "immutable" not in client.get(f"{paths[1]}?block={final}").headers["cache-control"]
    assert "immutable" in client.get(f"/money?block={final}").headers["cache-control"]
