"""Files of a node that need more than reading and writing: key files and their lock, TLS certificates, attention tests."""
