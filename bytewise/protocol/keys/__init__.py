"""Records of key epochs, key ceremonies and release logs (design section 8)."""
