"""Light audits: draw, job, result, bounty, and hints between auditors and watchtowers (design section 10)."""
