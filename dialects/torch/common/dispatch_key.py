"""Makes PyTorch's higher-order operators pass over level 2's dispatch key.

They dispatch in Python, by the thread's dispatch keys, and share a list of keys
that they all fall through.
"""


def fall_through(ops, c, name):
    """Takes torch._ops and torch._C, since the program's own __import__ would see an import."""
    key = c._dispatch_key_parse(name)
    keys = ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS
    if key not in keys:
        keys.append(key)
    for operator in list(ops._higher_order_ops.values()):
        operator.fallthrough(key)
