"""What a committee member adds to a verifier: duties, votes, commit and reveal. Read `ballots`, then `__main__`."""
