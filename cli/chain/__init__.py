"""`bytewise chain`: deploys the contracts of a network, shows a deployment and its parameters, calls contracts, and handles
proposals and votes."""
