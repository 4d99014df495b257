"""Light audits of drawn verifiers: draw, enclave job, signed result, bounty, and hints from auditors to watchtowers (design
section 10)."""
