"""Choice of one token from integer logits: sampler, constrained decoding, stop strings."""
