"""`bytewise attention`: attention tests, which a fund runs and anybody can score."""
