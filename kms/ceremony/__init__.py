"""Distributed key generation, resharing and repair of shares, as a function of a plan and a log (design section 8).

Read in this order. Pure modules: `deals` (rules for one message), `canary`, `state`, `state_machine` (which every shard and every
observer runs over the same log), `responses` (the next messages of a shard). Modules with effects: `authority` (which ceremonies
a shard joins), `participant` (a shard's side), `coordinator` (keeps the log, and is the coordinator's program), `erasure`.
The records are in `bytewise.protocol.keys.ceremony` and `ceremony_log`.
"""
