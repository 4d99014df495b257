"""The duty process of a verifier or a watchtower.

Read `settings`, `wiring` and `node` first. A tick reads one snapshot, each part of the node decides, and `executor` carries the
actions out. The folder `watch` reads batches, lists and ciphertext, and `jobs` is the client of the enclave. The parts that
decide are in `audits`, `demander`, `disputes` and `stake`.

The process has account keys and duties. It cannot run a model or see a prompt: only the enclave can, and the process reaches the
enclave over a job socket (`bytewise.protocol.jobs`).
"""
