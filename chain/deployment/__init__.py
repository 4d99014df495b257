"""Deployment of a network: plan, parameters, checks, and single contract calls of role holders."""
