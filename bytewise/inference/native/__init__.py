"""The native path: a small engine in C that computes the whole forward pass in one call. Its bytes equal those of the torch
path."""
