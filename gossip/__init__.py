"""Gossip between registered members: a process of its own, without account key, chain or database. Read `node`, then `admission`.

Only `gossip.node` imports trio and libp2p. All other modules need nothing but the standard library, because this package runs in
an environment of its own (`make gossip-venv`), and duty processes import `gossip.handover`, `gossip.peers` and `gossip.messages`.
"""
