"""Conversion of a checkpoint to an artifact: equalise, calibrate, bound, round, write (design section 6)."""
