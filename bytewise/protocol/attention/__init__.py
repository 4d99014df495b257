"""Attention tests: a fund's operator gives false answers by a secret schedule, and reveals the schedule afterwards.

`schedule` decides which receipts are false, `frauds` makes an answer false, `reveal` proves the schedule, and `score` counts
which accounts noticed.
"""
