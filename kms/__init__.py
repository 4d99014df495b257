"""The programs of a party that holds a key share: the key shard, and key ceremonies.

Read `storage` (the shard's folder), `ceremony` (key generation, resharing, repair), `shard` (the serving process), then
`release_log` (audits). `bytewise.crypto` has the cryptography. `enclave.release_client` is the client of a shard inside the
enclave.
"""
