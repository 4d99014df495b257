"""Measurements on this machine. `python -m bench` compares the time of generation and verification by prompt and answer
length."""
