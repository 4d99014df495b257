"""The indexer: follows the chain, computes facts from events, and compares them with the contracts' own views."""
