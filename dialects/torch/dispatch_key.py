"""Makes PyTorch's higher-order operators pass over level 2's dispatch key.

They dispatch in Python, by the thread's dispatch keys, and have a list of keys
that every one of them falls through.
"""

import torch._ops
from torch._C import _dispatch_key_parse


def fall_through(name):
    key = _dispatch_key_parse(name)
    keys = torch._ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS
    if key not in keys:
        keys.append(key)
    for operator in list(torch._ops._higher_order_ops.values()):
        operator.fallthrough(key)
