"""The part that a committee member adds to a verifier: votes, with commit and reveal. Read `ballots`, then `__main__`."""
