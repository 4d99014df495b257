"""The deterministic engine, profile `exact-1` (design section 6; normative text: docs/reference/exact-arithmetic.md).

Reading order: quantise, elementwise, matmul, manifest, artifact, rope, checkpoint, convert, make, tokenizer, cache,
attention, model, runner, rounding, sampling, known_answers, golden, self_test, dispatch_guard, determinism, divergence, engine.
"""
