"""`bytewise chain`: deploys the contracts of a network, shows a deployment, calls contracts, and handles proposals and votes."""
