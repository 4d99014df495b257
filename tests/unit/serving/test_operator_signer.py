"""An operator whose account key is at a remote signer: lost answers, a kill, and a signer that is away.

A signature whose answer is lost is asked for again, for the same receipt and no other.
"""

import signal
import threading
from pathlib import Path
from typing import Any

import httpx2
from fastapi import Response
from starlette.types import Receive, Scope, Send

from bytewise.protocol.encoding import from_json
from bytewise.protocol.records.receipt import SignedReceipt, receipt_id
from bytewise.protocol.signing import TYPED, verify_signature
from chain.sending.remote_signer import ATTEMPTS, PAUSE_S
from tests.fixtures.chain.signer_service import make_signer_files, running_signer
from tests.fixtures.serving.operator_site import Operator, body, process, running_operator_site, serving, wait_ready


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


def post(site: Operator, text: str, key: str) -> httpx2.Response:
    """The answer to a request with an idempotency key."""
    with site.http() as http:
        return http.post(f"{site.url}/v1/chat/completions", json=body(text), headers={"idempotency-key": key})


def receipt_of(answer: httpx2.Response) -> SignedReceipt:
    assert answer.status_code == 200, answer.text
    return from_json(SignedReceipt, answer.json()["receipt"]["signed"])


def is_signer_ready(site: Operator) -> bool:
    checks: list[dict[str, Any]] = httpx2.get(f"{site.metrics_url}/readyz", timeout=10.0).json()["checks"]
    (found,) = (bool(each["ok"]) for each in checks if each["name"] == "signer")
    return found


def test_operator_signs_one_receipt_for_a_number_through_losses_and_a_kill(tmp_path: Path) -> None:
    (tmp_path / "tls-of-signer").mkdir()
    with running_operator_site(tmp_path) as site:
        settings, config = tmp_path / "operator.toml", str(tmp_path / "operator.toml")
        (tmp_path / "operator.key").unlink()
        files, lossy = make_signer_files(tmp_path / "tls-of-signer"), LossySigner(site)
        with running_signer(files, [site.account], lossy) as url:
            given = files.settings(url, site.account.address).items()
            section = "[signer]\n" + "\n".join(f'{name} = "{each}"' for name, each in given)
            changed = settings.read_text().replace('[signer]\nkey_file = "operator.key"', section)
            settings.write_text(changed.replace("[limits]\n", "[limits]\nanchor_within_s = 300\nrequest_ttl_s = 1200\n"))
            lossy.loses = True
            with process(tmp_path, "serving", "--config", config, exit_code=-signal.SIGKILL) as child:
                wait_ready(site, child)
                verify_unsigned(post(site, "Whose signature is lost?", "first"), url)
                assert len(lossy.signed) == ATTEMPTS and len(set(lossy.signed)) == 1
                verify_unsigned(post(site, "And who comes after it?", "second"), url)
                child.kill()
            assert len(set(lossy.signed)) == 1 and site.receipt_store.last_issued() == 0
            with serving(site):
                verify_unsigned(post(site, "Who asks after the kill?", "third"), url)
                lossy.loses = False
                threading.Event().wait(PAUSE_S)
                third = receipt_of(post(site, "Who asks after the kill?", "third"))
                first = receipt_of(post(site, "Whose signature is lost?", "first"))
                assert [each.receipt.seq for each in (first, third)] == [1, 2]
                site.wait_anchored(2)
                assert is_signer_ready(site)
        verify_signature("receipt", receipt_id(site.network.anchor_domain, first.receipt), first.signature, site.account.address)
        with serving(site):
            verify_unsigned(post(site, "Who asks while the signer is away?", "fourth"), url)
            assert not is_signer_ready(site)
    assert len(set(lossy.signed)) == 2 == site.receipt_store.last_issued(), "no number has two receipts, or none"
    assert site.account.secret.hex() not in (tmp_path / "serving.log").read_text()


def verify_unsigned(answer: httpx2.Response, url: str) -> None:
    """The client is asked to come again, and not told where the signer is."""
    assert answer.status_code == 503 and "cannot sign receipts now" in answer.json()["error"]["message"], answer.text
    assert answer.headers["retry-after"] and url[8:] not in answer.text
