"""Level 1's mode, in the form that PyTorch accepts.

PyTorch's C++ enters it through the function's vectorcall slot, which is native;
torch.overrides.handle_torch_function, being bytecode, through the body below.
"""

from torch._C._dynamo import eval_frame
from torch.overrides import TorchFunctionMode


def make_mode(record):
    """Returns (mode, the function behind its __torch_function__)."""

    class RecordingMode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return record(func, types, args, kwargs)

    # Between two graphs of a function Dynamo would compile this one too.
    strategy = eval_frame._FrameExecStrategy(
        eval_frame._FrameAction.SKIP, eval_frame._FrameAction.DEFAULT
    )
    eval_frame.set_code_exec_strategy(RecordingMode.__torch_function__.__code__, strategy)
    return RecordingMode(), RecordingMode.__torch_function__
