"""The torch path on a CUDA device. It multiplies in other ways and uses other memory, but gives the same bytes. This code has
never run on a GPU."""
