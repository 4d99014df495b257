"""Measurements of this machine. `python -m bench` prints generation against verification, over prompt and answer."""
