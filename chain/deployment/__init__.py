"""Deployment of a network: plan, parameters, checks, and one-shot calls."""
