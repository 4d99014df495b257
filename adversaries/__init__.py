"""Dishonest actors, one per attack, started by the demo and by tests; nothing imports them.

`dishonest_operator` cheats on its receipts (`engines` are its lies), `frivolous_challenger` disputes an honest one,
`rpc_proxy` is a chain node that swallows answers.
"""
