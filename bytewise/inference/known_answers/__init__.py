"""Known answers of operations and models, which a backend must give before it is used."""
