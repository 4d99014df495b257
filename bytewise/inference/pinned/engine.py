"""Engine of `pinned-1`. It generates an answer, and checks a claim by computing the answer again in an equal environment."""

import dataclasses
from typing import Any

import torch
from torch import Tensor

from bytewise.inference.answer import AnswerBuilder, TokenTexts
from bytewise.inference.engine import memory_bounded
from bytewise.inference.engine_paths import HeadRow
from bytewise.inference.judging import Judge
from bytewise.inference.manifest import TOKENIZER_FILE
from bytewise.inference.pinned.checkpoint import PinnedArtifact
from bytewise.inference.pinned.fingerprint import pinned_switches, verify_here
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.errors.actors import ArtifactMismatch, CannotExecute, NotExact
from bytewise.protocol.errors.records import OutsideLimits
from bytewise.protocol.records.environment import PROFILE_PINNED_1, Environment
from bytewise.protocol.records.request import Output, Request, execution_hash
from bytewise.protocol.records.statements import CannotReason
from bytewise.protocol.records.trace import Generated, Verification
from bytewise.protocol.units import Digest

# The float path: transformers' own model, one sequence, fed in the same shapes for generating and verifying.

EXPONENT = 0
"""Exponent in every trace leaf. The field is always 0, because a row of floats has no common exponent."""


class FloatModel:
    """Float model of one artifact on one device."""

    def __init__(self, artifact: PinnedArtifact, device: str) -> None:
        """Builds the model. Raises `ArtifactMismatch` if configuration and tensors do not belong to one model."""
        self._device = torch.device(device)
        self._model = _build(artifact).to(self._device)

    def begin(self, prompt: tuple[int, ...]) -> tuple[Any, HeadRow]:
        """Feeds the whole prompt at once to a new cache. Returns the cache and the head row of the last position."""
        from transformers import DynamicCache

        cache = DynamicCache(config=self._model.config)
        return cache, self._feed(cache, prompt)

    def feed(self, cache: Any, token: int) -> HeadRow:
        """Feeds one more token and returns its head row."""
        return self._feed(cache, (token,))

    def _feed(self, cache: Any, tokens: tuple[int, ...]) -> HeadRow:
        ids = torch.tensor([tokens], dtype=torch.int64, device=self._device)
        out = self._model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return head_row(out.logits[0, -1])


def head_row(logits: Tensor) -> HeadRow:
    """Returns the head row for logits [V] of any float type. The row of the trace is the SHA-256 of the logits as float32,
    little-endian."""
    wide = logits.to(torch.float32).cpu().contiguous()
    row = digests.sha256(wide.numpy().astype("<f4").tobytes())
    return HeadRow(row, EXPONENT, wide if bool(torch.isfinite(wide).all()) else None)


def _build(artifact: PinnedArtifact) -> Any:
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING
    from transformers.utils import logging

    tensors = artifact.tensors()
    kinds = {tensor.dtype for tensor in tensors.values()}
    if len(kinds) != 1 or not next(iter(kinds)).is_floating_point:
        raise ArtifactMismatch(artifact.name, f"tensors of types {', '.join(sorted(map(str, kinds)))}, wanted is one float type")
    logging.disable_progress_bar()
    try:
        config = AutoConfig.for_model(**artifact.config)
        kind = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
        model, loaded = kind.from_pretrained(
            None, config=config, state_dict=tensors, dtype=kinds.pop(), attn_implementation="eager", output_loading_info=True
        )
    except (StrictDataclassError, AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ArtifactMismatch(artifact.name, " ".join(str(error).split())[:200]) from None
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        if loaded[what]:
            raise ArtifactMismatch(artifact.name, f"{what}: {sorted(map(str, loaded[what]))[0]}")
    return model.eval()


SELF_TEST_TOKENS = 8


class PinnedEngine:
    """Float engine of one artifact in one environment. It implements the port `Engine` and does one job at a time."""

    profile = PROFILE_PINNED_1

    def __init__(self, artifact: PinnedArtifact, environment: Environment, *, device: str = "cpu", threads: int = 1) -> None:
        """Builds the model. Raises `CannotExecute` (ENVIRONMENT) if this machine and process do not match the environment. The
        error names the difference."""
        self.artifact, self.environment = artifact, environment
        self._words = TokenTexts(artifact.content[TOKENIZER_FILE], artifact.manifest.architecture.vocabulary)
        self._device, self._threads = device, threads
        with memory_bounded(), pinned_switches(threads):
            self._verify_here()
            self._model = FloatModel(artifact, device)

    def generate(self, request: Request) -> Generated:
        """Returns the answer that this environment gives. Raises `OutsideLimits` or `CannotExecute` if there is no answer."""
        self._check(request)
        with memory_bounded(), pinned_switches(self._threads):
            answer = self._answer(request)
            cache, row = self._model.begin(request.prompt)
            answer.add(row)
            while answer.reason is None:
                answer.add(self._model.feed(cache, answer.steps[-1].token))
            return answer.finish()

    def verify(self, request: Request, claimed: Output, out_hash: Digest) -> Verification:
        """Computes the answer again, with tensors of the same shapes as in `generate`. Returns it with the first divergence of
        the claim, if any. Raises `OutsideLimits` or `CannotExecute` if it cannot judge the claim."""
        self._check(request)
        with memory_bounded(), pinned_switches(self._threads):
            judge = Judge(self._answer(request), claimed, out_hash, self.artifact.manifest.architecture.vocabulary)
            answer, claimed_tokens, agrees = judge.answer, judge.believable, True
            cache, row = self._model.begin(request.prompt)
            judge.take([row])
            while answer.reason is None:
                at, token = len(answer.steps) - 1, answer.steps[-1].token
                # A row belongs to the claim too, as long as the claimed tokens are the true ones.
                agrees = agrees and at < len(claimed_tokens) and token == claimed_tokens[at]
                row = self._model.feed(cache, token)
                if agrees:
                    judge.take([row])
                else:
                    judge.grow(row)
            # No pass covers many positions at once, because its floats would differ.
            return dataclasses.replace(judge.verdict(), verify_passes=0)

    def confirm(self, request: Request, verification: Verification) -> Verification:
        """Returns the verification if this machine gives the same true answer once more. Otherwise raises `CannotExecute`.

        This profile has no second backend. So the engine checks that the machine still matches the environment and repeats its
        answer. A verification without divergence is returned without checks.
        """
        if verification.divergence is None:
            return verification
        with pinned_switches(self._threads):
            self._verify_here()
        if self.generate(request) != verification.truth:
            raise CannotExecute("this machine does not repeat its own answer", CannotReason.BACKEND)
        return verification

    def vectors(self) -> Digest:
        """Returns the digest of the rows over a fixed prompt. The engine reads the prompt at once, and then token by token. It
        computes the digest twice, and raises `NotExact` if the results differ."""
        with memory_bounded(), pinned_switches(self._threads):
            first, second = self._self_test(), self._self_test()
        if first != second:
            raise NotExact("the float model gives two results for one prompt")
        return first

    def _self_test(self) -> Digest:
        prompt = tuple(i % self.artifact.manifest.architecture.vocabulary for i in range(SELF_TEST_TOKENS))
        cache, row = self._model.begin(prompt)
        rows = [row.row, *(self._model.feed(cache, token).row for token in prompt)]
        return digests.labelled(Label.VECTORS, *rows)

    def _verify_here(self) -> None:
        verify_here(self.environment, self.artifact.manifest.architecture, self._device, self._threads)

    def _answer(self, request: Request) -> AnswerBuilder:
        execution = execution_hash(self.artifact.model_id, PROFILE_PINNED_1, request.decode, request.prompt)
        return AnswerBuilder(request, execution, self._words)

    def _check(self, request: Request) -> None:
        if request.model_id != self.artifact.model_id:
            raise CannotExecute(f"model {request.model_id.hex()} is not loaded", CannotReason.MODEL_MISSING)
        if request.environment != self.environment.digest:
            asked, here = request.environment.hex(), self.environment.digest.hex()
            raise CannotExecute(f"another environment: {asked} is asked for, this is {here}", CannotReason.ENVIRONMENT)
        shape = self.artifact.manifest.architecture
        if max(request.prompt) >= shape.vocabulary:
            raise OutsideLimits("prompt token", max(request.prompt), shape.vocabulary - 1)
        total = len(request.prompt) + request.decode.max_new_tokens
        if total > shape.max_context:
            raise OutsideLimits("context", total, shape.max_context)
