"""Builds the records that pages and API show, from the facts of one snapshot of the index."""
