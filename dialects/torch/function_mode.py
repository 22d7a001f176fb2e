"""Level 1's mode, in the form that both PyTorch and Dynamo accept.

PyTorch's C++ enters it through the function's vectorcall slot, which is native;
torch.overrides.handle_torch_function, being bytecode, through the body below.
"""

from torch.compiler import is_compiling as torch_is_compiling
from torch.overrides import TorchFunctionMode


def make_mode(record):
    """Returns (mode, the function behind its __torch_function__)."""
    # Dynamo traces the body, folding this to True. As a global it would make
    # Dynamo import this module by name, and it has none.
    is_compiling = torch_is_compiling

    class RecordingMode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if is_compiling():
                return func(*args, **(kwargs or {}))
            return record(func, types, args, kwargs)

    return RecordingMode(), RecordingMode.__torch_function__
