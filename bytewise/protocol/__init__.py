"""Records and rules of the network: pure functions and data, without I/O, clock, randomness or logging.

Reading order: units, errors, encoding, digests, merkle, signing; records (request, receipt, trace, environment, statements,
seal); court; decisions; keys; evidence; jobs.
"""
