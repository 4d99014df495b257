"""The native path: a small engine in C, the whole forward pass in one call, with the bytes of the torch path."""
