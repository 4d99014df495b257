"""`bytewise chain`: deploys the contracts, shows a deployment, calls them and votes."""
