"""An operator whose account key is at a remote signer: receipts, batches, and what happens while the signer is away."""

from collections.abc import Iterator

import httpx2
import pytest

from bytewise.protocol.records.receipt import receipt_id
from bytewise.protocol.signing import verify_signature
from tests.fixtures.chain.signer_service import make_signer_files, running_signer
from tests.fixtures.serving.operator_site import Operator, body, running_operator_site, serving


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    with running_operator_site(tmp_path_factory.mktemp("signer")) as site:
        yield site


def ready(operator: Operator) -> dict[str, bool]:
    answer = httpx2.get(f"{operator.metrics_url}/readyz", timeout=10.0)
    return {each["name"]: each["ok"] for each in answer.json()["checks"]}


def test_operator_serves_and_anchors_with_a_key_that_it_never_has(operator: Operator) -> None:
    folder = operator.folder
    (folder / "operator.key").unlink()
    (folder / "tls-of-signer").mkdir()
    files, settings = make_signer_files(folder / "tls-of-signer"), folder / "operator.toml"
    with running_signer(files, [operator.account]) as url:
        given = files.settings(url, operator.account.address).items()
        section = "[signer]\n" + "\n".join(f'{name} = "{each}"' for name, each in given)
        settings.write_text(settings.read_text().replace('[signer]\nkey_file = "operator.key"', section))
        with serving(operator), operator.http() as http:
            assert http.post(f"{operator.url}/v1/chat/completions", json=body("Sign this.")).status_code == 200
            operator.wait_anchored(1)
            assert ready(operator)["signer"]
    issued = operator.receipt_store.unbatched(1) or operator.receipt_store.in_batch(1)
    signed, domain = issued[0], operator.network.anchor_domain
    verify_signature("receipt", receipt_id(domain, signed.receipt), signed.signature, operator.account.address)
    with serving(operator), operator.http() as http:
        answer = http.post(f"{operator.url}/v1/chat/completions", json=body("Sign this too."))
        assert answer.status_code == 503 and "cannot sign receipts now" in answer.text and url[8:] not in answer.text
        assert answer.headers["retry-after"] and not ready(operator)["signer"]
    assert operator.receipt_store.last_issued() == 1, "a number is taken by a signed receipt only"
    assert operator.account.secret.hex() not in (folder / "serving.log").read_text()
