"""Data availability: `client` talks the EigenDA proxy's REST; `store` is a small store that speaks it too, for devnets.

Read `conventions`, `client`; for the store `certificate`, `blobs`, `knobs`, `store`. Neither ever sees plaintext.
"""
