"""The vocabulary and the rules of the network: pure, no I/O, clock, randomness or logging.

Reading order: units, errors, encoding, digests, merkle, request, receipt, trace, environment, signing, messages, seal,
opening, dispute, sortition, tally, decide, jobs.
"""
