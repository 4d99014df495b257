"""The duty process of a verifier or a watchtower.

Read `settings`, `wiring` and `node` first: a tick reads one snapshot, each part decides, and `executor` acts. Folders: `watch`
(batches, lists, ciphertext), `audits`, `demands`, `disputes`, `stake`, `jobs` (the enclave's client). The process holds keys
and duties. It cannot run a model or see a prompt: only the enclave does, which it reaches over a job socket
(`bytewise.protocol.jobs`).
"""
