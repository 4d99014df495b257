"""The torch path on a CUDA device: other ways to multiply, other memory, the same bytes. It has never run on a GPU."""
