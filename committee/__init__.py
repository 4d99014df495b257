"""The part that a committee member adds to a verifier: votes in disputes, and verdict certificates. Read `ballots`, then
`__main__`."""
