"""Keys that nobody holds: generation, resharing and repair of shares as a function of a plan and a log (design section 8).

Read in this order: streams, dealing, complaints, canary (what one message must be); ceremony (the state machine that every
shard and every onlooker runs over the same log); member (what a shard says next); the records are `bytewise.protocol.ceremony`.
"""
