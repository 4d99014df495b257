"""`bytewise receipt`, `audit`, `dispute` and `pool`: finds a receipt, pays its audits, and disputes it."""
