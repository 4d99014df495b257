"""The chain client: reads pinned to a block, events that survive reorganisations, one journalled writer per key.

Reading order: artifacts, node, client, reader, decoding, history, sender, sending with its acts, keys, params, plan, deploy.
Nothing else knows web3.
"""
