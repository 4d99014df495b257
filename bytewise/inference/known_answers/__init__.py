"""Known answers of operations and models, by which a backend is tested before it serves."""
