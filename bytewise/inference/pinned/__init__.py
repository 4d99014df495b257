"""Profile `pinned-1`: transformers' float model in a pinned environment, verified by re-execution (docs/reference/pinned-1.md).

Reading order: `checkpoint` (the artifact: a checkpoint with a manifest), `fingerprint` (the environment of this machine, and
its switches), `engine` (the float model).
"""
