"""The measured program that opens one envelope at a time and judges its receipt. Read `judge`, then `job_socket` (design section
7)."""
