"""Computes the vectors of a model on this machine's engine. The account that proposes a model publishes the vectors' digest,
and verifiers that compute the same answers certify it."""

from collections.abc import Callable

from bytewise.inference.pinned.engine import PinnedEngine
from bytewise.inference.profiles import AnyEngine
from bytewise.protocol.errors.actors import NotExact
from bytewise.protocol.records.model_vectors import KINDS, VectorAnswer, Vectors, questions
from bytewise.protocol.units import ZERO_DIGEST

ReportProgress = Callable[[str, int, int], None]
"""Function that is called with the name of the next question, the number of answered questions and the number of all
questions."""


def vectors_of(engine: AnyEngine, tell: ReportProgress | None = None) -> Vectors:
    """Runs the profile's own vectors, then lets the engine answer the questions of its model, and returns all results.

    Each answer is also checked as a claim. Raises `NotExact` or `CannotExecute` if this machine cannot compute the vectors.
    """
    environment = engine.environment.digest if isinstance(engine, PinnedEngine) else ZERO_DIGEST
    model_id, shape = engine.artifact.model_id, engine.artifact.manifest.architecture
    profile_vectors = engine.vectors()
    answers, asked = [], questions(model_id, environment, shape.vocabulary, shape.max_context)
    for place, (name, request) in enumerate(zip(KINDS, asked, strict=True)):
        if tell is not None:
            tell(name, place, len(asked))
        made = engine.generate(request)
        # Also checks each answer as a claim, the way that votes use the engine.
        checked = engine.verify(request, made.output, made.out_hash)
        if checked.divergence is not None:
            raise NotExact(f"the answer to vector {place + 1} ({name}) is not the one that this engine confirms")
        answers.append(VectorAnswer(made.output.tokens_hash, made.trace_root))
    return Vectors(engine.profile, profile_vectors, model_id, environment, tuple(answers))
