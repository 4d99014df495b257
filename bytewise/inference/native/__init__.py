"""The native path: a small engine in C, with the whole forward pass in one call and the bytes of the torch path."""
