"""The chain client: reads pinned to a block, events that survive reorganisations, one journalled writer per key.

Reading order: artifacts, client, reader, history, events, intents, sender, keys, params, deploy. Nothing else knows web3.
"""
