"""Gossip between registered members. It runs in a separate process that has no account key, no chain access and no database.

Read `node` first, then `admission`. Only `gossip.node` imports trio and libp2p, and it runs in a separate Python environment
(`make gossip-venv`). All other modules import only the standard library, because duty processes import `gossip.handover`,
`gossip.peers` and `gossip.messages` in the project's main environment.
"""
