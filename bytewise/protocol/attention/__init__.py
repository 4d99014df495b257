"""Attention tests: a fund's operator gives false answers by a secret schedule, and reveals the schedule afterwards.

`schedule` decides which receipts are false and makes their answers false. `reveal` proves the schedule. `score` counts which
accounts noticed.
"""
