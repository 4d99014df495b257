"""Disputes that a watchtower opens by its strategy, and its reports of equivocation."""
