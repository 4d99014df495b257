"""The native path: a small engine in C that computes the whole forward pass in one call. It gives the same bytes as the torch
path."""
