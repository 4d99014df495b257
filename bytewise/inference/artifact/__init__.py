"""The artifact of a model: manifest, tensors, model families, token table (design section 6)."""
