"""A few samples of each kind, for the short version in tools/test."""

import outcome  # first  # noqa: F401, I001

import gc

import samples_of_moduleinfo
import samples_of_opinfo
import samples_of_optimizerinfo
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db


def run():
    gc.disable()
    gc.freeze()
    for op in op_db[::12]:
        if torch.float32 in op.supported_dtypes("cpu"):
            samples_of_opinfo.run(op, [torch.float32], 3)
    for info in module_db[::12]:
        samples_of_moduleinfo.run(info, training=True)
    for info in optim_db[::5]:
        samples_of_optimizerinfo.run_all(info, 2)
