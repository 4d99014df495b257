"""The deterministic engine, profile `exact-1` (design section 6; normative text: docs/reference/exact-arithmetic.md).

Reading order: `exact` (quantise, elementwise, cache, matmul, attention, rope, modules), `manifest`, `artifact`, `convert`,
`tokenizer`, `sampling`, `engine_paths`, `torch_path`, `answer`, `judging`, `known_answers`, `dispatch_guard`, `determinism`,
`engine`, `profiles`.
"""
