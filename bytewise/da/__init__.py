"""Data availability: a client of the EigenDA proxy's REST interface, and a small store with the same interface for devnets.

Reading order: `conventions`, `client`; for the store `settings`, `store`. Client and store never see plaintext.
"""
