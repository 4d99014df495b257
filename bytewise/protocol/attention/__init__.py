"""Attention tests: a fund's operator gives false answers by a secret schedule, and reveals the schedule afterwards.

`schedule` says which receipts are false, `frauds` makes an answer false, `reveal` proves the schedule, `score` counts who
noticed.
"""
