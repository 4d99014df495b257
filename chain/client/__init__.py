"""JSON-RPC to one node or several, contract artifacts, and the address book with its checks."""
