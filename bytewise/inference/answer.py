"""Generation of an answer. Each head row gives one token, until a rule of the decode policy ends the answer (design section 6).

Every decode parameter depends only on the prompt and the tokens so far. So generating and verifying build the same answer.
"""

from collections.abc import Callable

from torch import Tensor

from bytewise.inference.artifact.token_table import TokenTable
from bytewise.inference.engine_paths import HeadRow
from bytewise.inference.sampling.constraint import Schemas, StopStrings
from bytewise.inference.sampling.sampler import LogitProcessor, choose, token_logprobs
from bytewise.protocol.errors.actors import CannotExecute, UnsupportedModel
from bytewise.protocol.records.request import Request, TokenLogprobs, output_for
from bytewise.protocol.records.statements import CannotReason
from bytewise.protocol.records.trace import Generated, TraceStep, trace_leaves
from bytewise.protocol.units import Digest


class TokenTexts:
    """Texts of the tokens of one artifact, for decode parameters that use text. This class reads the tokenizer file when the
    first such request comes."""

    def __init__(self, tokenizer_json: bytes, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self.lexicon = TokenTable(tokenizer_json, vocabulary)
        self.schemas = Schemas(self.lexicon)

    def verify(self) -> None:
        """Raises `CannotExecute` if the artifact does not define the text of its tokens. The commands that make artifacts refuse
        such checkpoints."""
        try:
            self.lexicon.verify()
        except UnsupportedModel as error:
            raise CannotExecute(str(error), CannotReason.MODEL_MISSING) from None


class AnswerBuilder:
    """An answer under construction. It grows by one token at a time until it has a finish reason."""

    request: Request
    """Request that the answer belongs to."""
    steps: list[TraceStep]
    """One step (head row and token) for each chosen token, in order."""
    reason: str | None
    """Finish reason, or None while more tokens can be added."""
    scored: bool
    """Whether the request needs all logits of a row. It does if it samples, changes or restricts the choice of tokens, or lists
    log probabilities. Otherwise the token of the largest logit is enough."""

    def __init__(self, request: Request, execution: Digest, words: TokenTexts) -> None:
        """Prepares an answer without tokens. `execution` is the execution hash, which keys the sampler. Raises `CannotExecute`
        if the request uses text of tokens that the artifact does not define."""
        policy = request.decode
        self.request, self.steps, self.reason = request, [], None
        self._execution, self._words = execution, words
        self._scores: Callable[[], Tensor | None] = lambda: None
        if policy.stop_strings or policy.grammar is not None:
            words.verify()
        self._logprobs: list[TokenLogprobs] | None = None if policy.logprobs is None else []
        self._adjustment = LogitProcessor(policy, request.prompt, words.vocabulary) if policy.penalises else None
        self._stops = StopStrings(policy.stop_strings) if policy.stop_strings else None
        self._constraint = None if policy.grammar is None else words.schemas.constraint(policy.grammar)
        self._greedy = policy.temperature_fraction == 0 and self._adjustment is None and self._constraint is None
        self.scored = not self._greedy or self._logprobs is not None

    @property
    def scores(self) -> Tensor | None:
        """Logits of the newest row after the adjustments of the decode policy. The answer's token at this row was chosen from
        them. None before the first row, after `forget`, or if no token could be chosen."""
        return self._scores()

    def add(self, head: HeadRow) -> None:
        """Chooses the token for the next head row and adds the token to the answer. Sets `reason` if the answer ends with this
        row. If no token can be chosen, `reason` is `error`."""
        token = self._choose(head)
        if token is None:
            self.reason = "error"
            return
        self.steps.append(TraceStep(head.row, head.exponent, token))
        if self._logprobs is not None and (logits := head.logits) is not None:
            self._logprobs.append(token_logprobs(logits, token, self.request.decode.logprobs or 0))
        if self._adjustment is not None:
            self._adjustment.add(token)
        self.reason = self._ending(token)

    def forget(self) -> None:
        """Drops the logits of the newest row, so that their memory can be freed. `scores` is None until the next row."""
        self._scores = lambda: None

    def finish(self) -> Generated:
        """Returns the complete answer. Call it only when there is a finish reason."""
        tokens = tuple(step.token for step in self.steps)
        logprobs = None if self._logprobs is None else tuple(self._logprobs)
        output = output_for(self.request, tokens, str(self.reason), logprobs)
        return Generated(output, trace_leaves(self.request.nonce, self.steps))

    def _choose(self, head: HeadRow) -> int | None:
        # Returns None if no token can be chosen.
        if self._greedy:
            # The path may know the largest logit without keeping the others.
            self._scores = lambda: head.logits
            return head.best
        scores = None if (logits := head.logits) is None else self._adjusted(logits)
        self._scores = lambda: scores
        if scores is None:
            return None
        return choose(scores, self.request.decode, self.request.seed, self._execution, len(self.steps))

    def _adjusted(self, logits: Tensor) -> Tensor | None:
        adjusted = logits if self._adjustment is None else self._adjustment.apply(logits)
        if adjusted is None or self._constraint is None:
            return adjusted
        choices = self._constraint.choices(self.request.decode.stop_tokens)
        return None if choices is None else adjusted.where(choices, float("-inf"))

    def _ending(self, token: int) -> str | None:
        policy = self.request.decode
        if token in policy.stop_tokens:
            return "stop"
        if self._stops is not None and self._stops.add(self._words.lexicon.pieces[token]):
            return "stop"
        if self._constraint is not None:
            self._constraint.add(token)
            if self._constraint.complete:
                return "stop"
        return "length" if len(self.steps) == policy.max_new_tokens else None
