"""The chain client: reads pinned to a block, events that survive reorganisations, and one journalled sender for each account.

The folders in reading order are client, reads, sending, acts, deployment, capsule, fork_pack. No folder outside `chain` imports
web3.
"""
