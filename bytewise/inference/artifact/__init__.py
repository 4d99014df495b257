"""The artifact of a model: tensors, model families, token table (design section 6). Its manifest is in `inference.manifest`."""
