"""`bytewise demo`: a whole network on one machine that catches a fraud.

Reading order: plan (who runs, where, with which figures), ports, loopback, processes, build (models, keys, chain), actors (their
configuration), client (asks), director (kill and absence), facts (read back from the chain), view, run.
"""
