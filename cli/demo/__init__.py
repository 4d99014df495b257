"""`bytewise demo`: a whole network on one machine that catches a fraud.

Reading order: plan (actors and figures), site (files and ports), processes, build (models, keys, chain), actors (settings of each
process), client (sends requests), director (kills one member, keeps one away), facts (read back from the chain), run.
"""
