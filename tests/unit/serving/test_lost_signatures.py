"""An operator whose remote signer signs and whose answer is lost: the same receipts are asked for again, and no others."""

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import Response
from starlette.types import Receive, Scope, Send

from bytewise.protocol.encoding import from_json
from bytewise.protocol.records.receipt import SignedReceipt
from bytewise.protocol.signing import TYPED
from chain.sending.remote_signer import ATTEMPTS, PAUSE_S
from tests.fixtures.chain.signer_service import make_signer_files, running_signer
from tests.fixtures.serving.operator_site import Operator, body, process, running_operator_site, wait_ready


class Lost(Response):
    """An answer whose connection ends before its first byte."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the head, and then nothing."""
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"132")]})


class LossySigner:
    """What it signed of receipts, and whether their answers are lost."""

    def __init__(self, site: Operator) -> None:
        self._receipts = TYPED + site.network.anchor_domain.separator
        self.signed: list[bytes] = []
        self.loses = False

    def __call__(self, _key: str, data: bytes, true: Response) -> Response:
        if not data.startswith(self._receipts):
            return true
        self.signed.append(data)
        return Lost() if self.loses else true


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Operator]:
    with running_operator_site(tmp_path) as made:
        yield made


def post(site: Operator, text: str, key: str) -> tuple[int, Any]:
    """Status and answer of a request with an idempotency key."""
    with site.http() as http:
        reply = http.post(f"{site.url}/v1/chat/completions", json=body(text), headers={"idempotency-key": key})
    return reply.status_code, reply.json()


def receipt_of(answer: Any) -> SignedReceipt:
    return from_json(SignedReceipt, answer["receipt"]["signed"])


def test_operator_signs_one_receipt_for_a_number_through_losses_and_a_kill(site: Operator) -> None:
    settings, config = site.folder / "operator.toml", str(site.folder / "operator.toml")
    (site.folder / "operator.key").unlink()
    (site.folder / "tls-of-signer").mkdir()
    files, lossy = make_signer_files(site.folder / "tls-of-signer"), LossySigner(site)
    with running_signer(files, [site.account], lossy) as url:
        given = files.settings(url, site.account.address).items()
        section = "[signer]\n" + "\n".join(f'{name} = "{each}"' for name, each in given)
        changed = settings.read_text().replace('[signer]\nkey_file = "operator.key"', section)
        settings.write_text(changed.replace("[limits]\n", "[limits]\nanchor_within_s = 300\nrequest_ttl_s = 1200\n"))
        with process(site.folder, "serving", "--config", config, exit_code=-signal.SIGKILL) as child:
            wait_ready(site, child)
            lossy.loses = True
            status, answer = post(site, "Whose signature is lost?", "first")
            assert status == 503 and "cannot sign receipts now" in answer["error"]["message"], site.log()
            assert len(lossy.signed) == ATTEMPTS and len(set(lossy.signed)) == 1
            assert post(site, "And who comes after it?", "second")[0] == 503
            child.kill()
        assert len(set(lossy.signed)) == 1 and site.receipt_store.last_issued() == 0
        with process(site.folder, "serving", "--config", config) as child:
            wait_ready(site, child)
            assert post(site, "Who asks after the kill?", "third")[0] == 503
            lossy.loses = False
            threading.Event().wait(PAUSE_S)
            status, third = post(site, "Who asks after the kill?", "third")
            assert status == 200, site.log()
            status, first = post(site, "Whose signature is lost?", "first")
            assert status == 200 and [receipt_of(each).receipt.seq for each in (first, third)] == [1, 2]
            site.wait_anchored(2)
    assert len(set(lossy.signed)) == 2 == site.receipt_store.last_issued(), "no number has two receipts"
