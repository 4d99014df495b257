"""Dishonest actors, one for each attack. Demo and tests start them; product code does not import them.

`dishonest_operator` signs false receipts, `frivolous_challenger` disputes an honest receipt, `rpc_proxy` is a chain node that
drops answers, `thinner_model` makes a cheaper model.
"""
