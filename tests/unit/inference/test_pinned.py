"""Profile `pinned-1`: answers of the float model, judged only where the whole environment is equal."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from bytewise.inference.pinned.engine import FloatModel, PinnedEngine, head_row
from bytewise.inference.pinned.fingerprint import fingerprint, pinned_switches
from bytewise.inference.profiles import vectors_of
from bytewise.protocol import digests
from bytewise.protocol.errors.actors import CannotExecute
from bytewise.protocol.errors.records import OutsideLimits
from bytewise.protocol.records.environment import PROFILE_PINNED_1, Version
from bytewise.protocol.records.request import Request, output_for
from bytewise.protocol.records.statements import CannotReason
from bytewise.protocol.records.trace import DivergenceClass, Generated
from bytewise.protocol.units import U64, U256, ZERO_ADDRESS, ZERO_DIGEST, Digest
from tests.fixtures.inference.models import policy
from tests.fixtures.inference.pinned_artifact import PinnedModel, make_place

NEW = 10


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> PinnedModel:
    return make_place(tmp_path_factory.mktemp("pinned_switches"))


def asked(place: PinnedModel, temperature: str = "0", new: int = NEW, **changes: object) -> Request:
    artifact = place.artifact
    plain = Request(
        2, artifact.model_id, "test", place.environment.digest, policy(new, temperature), U64(3), tuple(b"a question"),
        artifact.template_digest, artifact.tokenizer_digest, None, Digest(bytes(range(32))), U256(1), U64(2**40), ZERO_ADDRESS,
        None,
    )  # fmt: skip
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=["0", "0.8"], ids=["greedy", "sampled"])
def request_(place: PinnedModel, request: pytest.FixtureRequest) -> Request:
    return asked(place, request.param)


@pytest.fixture(scope="module")
def truth(place: PinnedModel, request_: Request) -> Generated:
    return place.engine.generate(request_)


def test_answer_equals_that_of_transformers(place: PinnedModel) -> None:
    request = asked(place)
    with pinned_switches(1):
        library = AutoModelForCausalLM.from_pretrained(place.source, dtype="auto", attn_implementation="eager")
        ids = torch.tensor([request.prompt])
        told = library.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=NEW, pad_token_id=0,
            return_dict_in_generate=True, output_logits=True,
        )  # fmt: skip
        model = FloatModel(place.artifact, "cpu")
        cache, row = model.begin(request.prompt)
        rows = [row, *(model.feed(cache, token) for token in told.sequences[0, len(request.prompt) : -1].tolist())]
    found = place.engine.generate(request)
    assert list(found.output.token_ids) == told.sequences[0, len(request.prompt) :].tolist()
    assert [row.row for row in rows] == [digests.sha256(logits[0].numpy().tobytes()) for logits in told.logits]


def test_a_true_claim_matches_without_any_teacher_forced_pass(place: PinnedModel, request_: Request, truth: Generated) -> None:
    again = PinnedEngine(place.artifact, place.environment)
    found = again.verify(request_, truth.output, truth.out_hash)
    assert (found.truth, found.divergence, found.verify_passes) == (truth, None, 0)
    assert again.confirm(request_, found) is found
    assert again.vectors() == place.engine.vectors()


def test_vectors_of_a_model_belong_to_its_environment(place: PinnedModel) -> None:
    found = vectors_of(place.engine)
    assert found.environment == place.environment.digest and found.profile == PROFILE_PINNED_1
    assert vectors_of(PinnedEngine(place.artifact, place.environment)).differences(found) == ()


def altered(position: int) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    """Another token at a position."""
    return lambda ids: (*ids[:position], (ids[position] + 1) % 250, *ids[position + 1 :])


@pytest.mark.parametrize(
    ("change", "kind", "position"),
    [
        (altered(0), DivergenceClass.TOKEN, 0), (altered(4), DivergenceClass.TOKEN, 4),
        (altered(NEW - 1), DivergenceClass.TOKEN, NEW - 1), (lambda ids: ids[:4], DivergenceClass.LENGTH, 4),
        (lambda ids: (*ids[:3], 2**31 - 1, *ids[4:]), DivergenceClass.TOKEN, 3), (lambda ids: (), DivergenceClass.LENGTH, 0),
        (lambda ids: (*ids, 65, 66), DivergenceClass.LENGTH, NEW),
    ],
)  # fmt: skip
def test_claim_of_other_tokens_is_a_divergence_at_its_position(
    place: PinnedModel, request_: Request, truth: Generated, change: Any, kind: DivergenceClass, position: int
) -> None:
    ids = truth.output.token_ids
    found = place.engine.verify(request_, output_for(request_, change(ids), "length"), truth.out_hash)
    where = found.divergence
    assert where is not None and found.truth == truth
    assert (where.position, where.kind, where.expected) == (position, kind, (*ids, None)[position])
    assert place.engine.confirm(request_, found) is found


def test_true_tokens_under_another_trace_are_found(place: PinnedModel, request_: Request, truth: Generated) -> None:
    found = place.engine.verify(request_, truth.output, Digest(bytes([7]) * 32))
    assert found.divergence is not None and found.divergence.kind is DivergenceClass.TRACE


def test_machine_that_does_not_repeat_itself_accuses_nobody(place: PinnedModel) -> None:
    request = asked(place)
    truth = place.engine.generate(request)
    other = place.engine.generate(asked(place, seed=U64(4), prompt=tuple(b"another")))
    found = place.engine.verify(request, output_for(request, other.output.token_ids, "length"), truth.out_hash)
    drifted = dataclasses.replace(found, truth=other)
    with pytest.raises(CannotExecute) as caught:
        place.engine.confirm(request, drifted)
    assert caught.value.values[1] is CannotReason.BACKEND


FOREIGN: dict[str, Any] = {
    "gpu_arch": "sm_90",
    "driver": "580.65.06",
    "libraries": lambda e: (Version("libc", "other"), *e.libraries[1:]),
    "engine_flags": lambda e: tuple(sorted({*e.engine_flags, "persistence-mode=Enabled"})),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_machine_of_another_environment_cannot_execute(place: PinnedModel, name: str) -> None:
    value = FOREIGN[name](place.environment) if callable(FOREIGN[name]) else FOREIGN[name]
    with pytest.raises(CannotExecute, match=name) as caught:
        PinnedEngine(place.artifact, dataclasses.replace(place.environment, **{name: value}))
    assert caught.value.values[1] is CannotReason.ENVIRONMENT


def test_missing_device_threads_or_environment_cannot_execute(place: PinnedModel) -> None:
    with pytest.raises(CannotExecute, match="has threads=1, here threads=2"):
        PinnedEngine(place.artifact, place.environment, threads=2)
    foreign = asked(place, environment=ZERO_DIGEST)
    for act in (
        lambda: fingerprint(place.artifact.manifest.architecture, device="tpu"), lambda: place.engine.generate(foreign),
        lambda: place.engine.verify(foreign, output_for(foreign, (1,), "length"), ZERO_DIGEST),
    ):  # fmt: skip
        with pytest.raises(CannotExecute) as caught:
            act()
        assert caught.value.values[1] is CannotReason.ENVIRONMENT


def test_container_digest_is_configured_and_part_of_the_environment(place: PinnedModel) -> None:
    named = dataclasses.replace(place.environment, container=Digest(bytes([1]) * 32))
    assert named.digest != place.environment.digest
    engine = PinnedEngine(place.artifact, named)
    with pytest.raises(CannotExecute):
        engine.generate(asked(place))
    assert engine.generate(asked(place, environment=named.digest)).output.token_ids


def test_requests_outside_the_model_are_refused(place: PinnedModel) -> None:
    for changes in ({"prompt": (10**6,)}, {"decode": policy(1000)}):
        with pytest.raises(OutsideLimits):
            place.engine.generate(asked(place, **changes))
    with pytest.raises(CannotExecute) as caught:
        place.engine.generate(asked(place, model_id=ZERO_DIGEST))
    assert caught.value.values[1] is CannotReason.MODEL_MISSING


def test_logits_that_are_not_finite_end_the_answer() -> None:
    assert head_row(torch.tensor([1.0, float("nan")])).logits is None
    assert head_row(torch.tensor([1.0, float("inf")], dtype=torch.bfloat16)).logits is None
    half = head_row(torch.tensor([1.0, -2.5], dtype=torch.bfloat16))
    assert half.row == digests.sha256(torch.tensor([1.0, -2.5]).numpy().tobytes()) and half.exponent == 0


def test_switches_are_restored_after_a_pinned_error() -> None:
    before = (torch.backends.cudnn.benchmark, torch.backends.cuda.matmul.allow_tf32, torch.are_deterministic_algorithms_enabled())
    torch.backends.cudnn.benchmark = True
    try:
        with pytest.raises(KeyError), pinned_switches(1):
            assert not torch.backends.cudnn.benchmark and torch.are_deterministic_algorithms_enabled()
            raise KeyError
        assert torch.backends.cudnn.benchmark
    finally:
        torch.backends.cudnn.benchmark = before[0]
    assert before[1:] == (torch.backends.cuda.matmul.allow_tf32, torch.are_deterministic_algorithms_enabled())
