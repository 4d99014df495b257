"""What pages and API say: records for people, made of facts of one snapshot of the index."""
