"""`bytewise attention`: tests of attention, run by a fund and scored by anybody."""
