"""Every error of the network, one class per numbered rule. Read `branches` first: the branch decides behaviour.

Rules are in `records` (R-01 to R-28), `actors` (R-30 and up) and `evidence` (R-70 and up). `branches` also has the fixed words
that distinguish the causes of one rule. `catalogue` finds a class by its name. To add a rule, append a class with the next free
number to its module and regenerate `docs/reference/errors.md`.
"""
