"""Profile `pinned-1`: transformers' float model in a pinned environment, verified by re-execution (docs/reference/pinned-1.md).

Reading order: checkpoint (the artifact: the checkpoint under a manifest), machine (what this machine is), fingerprint (the
Environment that it makes), switches, model (the float path), engine.
"""
