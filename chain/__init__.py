"""The chain client: reads pinned to a block, events that survive reorganisations, and one journalled sender per key.

Packages in reading order: client, reads, sending, acts, deployment. No other package imports web3.
"""
