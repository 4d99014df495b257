"""Keys that nobody holds: generation, resharing and repair of shares as a function of a plan and a log (design section 8).

Read in this order: streams, sealing, dealing, complaints, canary, result (what one message must be, and what they make
together); state, steps, closing, ceremony (the state machine that every shard and every onlooker runs over the same log); member
(what a shard says next): all of these are pure. authority, desk (a shard: what it takes part in, stores and answers), erasing,
scribe (who keeps the log), link, conduct (its program). The records are in `bytewise.protocol.keys.ceremony` and `ceremony_log`.
"""
