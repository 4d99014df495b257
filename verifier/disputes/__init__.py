"""Disputes that a watchtower opens, and reports of equivocation."""
