"""The torch path on a CUDA device: other ways to multiply and other memory, but the same bytes. This code has never run on a
GPU."""
