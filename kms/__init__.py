"""What a key holder runs. Read in this order: curve, hpke, envelope, shares, dleq (pure cryptography); dealer, dkg, sealing,
keyring (keys at rest); policy (pure decision), release, api (the shard); client (the enclave's side)."""
