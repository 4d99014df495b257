"""The torch path on a CUDA device: other ways to multiply, other memory, the same bytes. Never yet run on a GPU.

Reading order: backends, runner, graphs.
"""
