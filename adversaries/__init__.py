"""Dishonest actors, one for each attack. Demo and tests start them; product code does not import them.

`dishonest_operator` signs false receipts, `frivolous_challenger` disputes an honest receipt, `rpc_proxy` drops answers of a chain
node, `faulty_proxy` makes connections to chain and DA store fail, `thinner_model` makes a cheaper model.
"""
