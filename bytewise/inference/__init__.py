"""The deterministic engine, profile `exact-1` (design section 6; normative text: docs/reference/exact-arithmetic.md).

Reading order: `exact` (quantise, elementwise, matmul, rope, cache, attention), manifest, `artifact`, `convert`, tokenizer,
model, runner, `sampling`, answer, judging, `known_answers`, dispatch_guard, determinism, engine.
"""
