"""From integer logits to one token: sampler, constrained decoding, stop strings."""
