"""The users of the demo's network. A user sends requests with the library `openai` over TLS, and trusts only the operator's
certificate."""

import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import openai

from bytewise.protocol.errors.actors import TryAgain
from cli.demo.plan import FREQUENCY_PENALTY, MAX_TOKENS, Question

TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The parts of one answer that the demo stores."""

    operator: str
    """Name of the operator that answered."""
    receipt_id: str
    """Id of the receipt, 0x-hex."""
    prompt_tokens: int
    """Number of tokens of the whole prompt."""
    completion_tokens: int
    """Number of tokens of the answer."""
    tokens_hash: str
    """The receipt's `tokens_hash`, 0x-hex."""
    mode: int
    """The receipt's mode, a value of `Mode`."""
    client_mode: int
    """The receipt's client mode, a value of `ClientMode`."""
    temperature: float
    """Temperature of the request."""
    assurance: str
    """Assurance of the key epoch, as the operator states it in the answer."""
    retried_same_receipt: bool | None
    """True if the request was sent twice and both answers have the same receipt. None if it was sent once."""
    opening: Path
    """File with the opening of the receipt, for `bytewise verify --opening`."""
    text: str = ""
    """Text of the answer. It is shown on the screen only, and written to no file."""


class Client:
    """One user, who sends requests to one operator."""

    def __init__(self, operator: str, url: str, certificate: Path, model: str, max_tokens: int = MAX_TOKENS) -> None:
        context = ssl.create_default_context(cafile=str(certificate))
        http = httpx2.Client(verify=context, timeout=TIMEOUT_S)
        self._api = openai.OpenAI(base_url=f"{url}/v1", api_key="none", http_client=http, timeout=TIMEOUT_S)
        self._operator = operator
        self._model = model
        self._max_tokens = max_tokens

    def ask(self, question: Question, folder: Path, repeat: bool = False) -> Answer:
        """Sends a question to the operator, and writes the receipt's opening to a file in the folder. If `repeat` is true, then
        sends the same request again, as a client does that has lost the answer."""
        reply = self._post(question)
        receipt = reply["receipt"]["receipt_id"]
        same = self._post(question, retry=1)["receipt"]["receipt_id"] == receipt if repeat else None
        opening = folder / f"{receipt}.json"
        opening.write_text(json.dumps(reply["opening"], separators=(",", ":"), sort_keys=True))
        usage = reply["usage"]
        signed = reply["receipt"]["signed"]["receipt"]
        return Answer(
            self._operator, receipt, usage["prompt_tokens"], usage["completion_tokens"], signed["tokens_hash"],
            int(signed["mode"]), int(signed["client_mode"]), question.temperature, reply["assurance"], same, opening,
            reply["choices"][0]["message"]["content"] or "",
        )  # fmt: skip

    def _post(self, question: Question, retry: int = 0) -> dict[str, Any]:
        """Sends a question and returns the body of the answer. `retry` is the number of times that the client has sent the
        request before."""
        try:
            reply = self._api.chat.completions.create(
                model=self._model,
                messages=[{"role": "user", "content": question.text}],
                max_tokens=self._max_tokens,
                temperature=question.temperature,
                top_p=question.top_p,
                frequency_penalty=FREQUENCY_PENALTY,
                seed=question.seed,
                extra_headers={"x-stainless-retry-count": str(retry)},
            )
        except openai.OpenAIError as error:
            raise TryAgain(f"operator {self._operator}", str(error)[:200]) from None
        body: dict[str, Any] = json.loads(reply.model_dump_json())
        return body

    def close(self) -> None:
        """Closes the connections to the operator."""
        self._api.close()
