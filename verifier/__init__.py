"""A verifier or watchtower: read `settings`, `records`, `check`, `audit`, `jobs`, `node`, `act`; then `enclave`.

The duty process (everything but `enclave`) holds keys and duties and cannot run a model or see a prompt. `enclave` is the
measured program that alone opens envelopes; the two talk over a job socket (`frames`, `bytewise.protocol.jobs`).
"""
