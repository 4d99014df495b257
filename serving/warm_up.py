"""What an operator does before it says that it is ready: answer, and check its own answers by the verifier's way.

The first answer of a process is slow (kernels are chosen, memory is allocated), and a machine that cannot verify what it
generates must never sign. Nothing of it is signed, stored or published.
"""

import json

from bytewise.ports import Engine
from bytewise.protocol.errors import NotExact
from bytewise.protocol.signing import Signer
from serving.json_numbers import parse_json
from serving.openai import read_ask
from serving.request_builder import Offer, Words, make_request

NEW_TOKENS = 8
TEMPERATURES = (0, 0.8)
"""Greedy and sampled: both ways through the sampler."""


def warm_up(engine: Engine, offer: Offer, words: Words, client: Signer) -> int:
    """How many tokens were generated and verified; `NotExact` if the engine contradicts itself."""
    new, total = min(NEW_TOKENS, offer.environment.limits.max_new_tokens), 0
    for temperature in TEMPERATURES:
        question = {"messages": [{"role": "user", "content": "Are you warm?"}], "max_tokens": new, "seed": 1}
        body = json.dumps(question | {"model": offer.model_name, "temperature": temperature}).encode()
        request, _ = make_request(read_ask(parse_json(body)), offer, words, client, bytes, now=0)
        answer = engine.generate(request)
        found = engine.verify(request, answer.output, answer.out_hash)
        if found.divergence is not None:
            raise NotExact(f"warm-up at temperature {temperature}: verification differs at token {found.divergence.position}")
        total += answer.output.completion_tokens
    return total
