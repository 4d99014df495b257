"""The artifact of a model: manifest, tensors, families, token table (design section 6)."""
