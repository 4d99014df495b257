"""The transactions of an account: about itself, demands, disputes, key epochs, proposals. `actor` combines the transactions of
an actor in one class."""
