"""Threads that C made: some call back into Python, some call one operator alone; one of these is
there before torch, one has a small stack, one is started through libpython. Arguments: which of
them."""

import ctypes
import pathlib
import subprocess
import sys
import tempfile
import time

libc = ctypes.CDLL(None)
create, join = libc.pthread_create, libc.pthread_join
create.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
join.argtypes = [ctypes.c_ulong, ctypes.c_void_p]
CALLS = b"""
#include <omp.h>
#include <unistd.h>
void* one(void* volatile* call) {
  while (call[0] == 0) usleep(1000);
  ((int (*)(void*))call[0])(call[1]);
  return 0;
}
void region(void* volatile* call) {
#pragma omp parallel num_threads(2)
  if (omp_get_thread_num() == 1) one(call);
}
"""


def start(function, argument, stack_bytes=None):
    thread, attributes = ctypes.c_ulong(), None
    if stack_bytes is not None:
        attributes = ctypes.create_string_buffer(64)
        libc.pthread_attr_init(attributes)
        assert libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(stack_bytes)) == 0
    assert create(ctypes.byref(thread), attributes, function, argument) == 0
    return thread


def compiled():
    with tempfile.TemporaryDirectory() as folder:
        command = ["gcc", "-shared", "-fPIC", "-fopenmp", "-x", "c", "-", "-o", f"{folder}/c.so"]
        subprocess.run(command, input=CALLS, check=True)
        return ctypes.CDLL(f"{folder}/c.so")


early = (ctypes.c_void_p * 2)()
if "early" in sys.argv:
    early_thread = start(compiled().one, early)

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

done = []


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
def call_python(_):
    tensor = torch.ones(3)
    done.append(float(F.relu(tensor).sum()))
    return None


def zero(call):
    """Has the waiting `call` fill a tensor, which it returns."""
    tensor = torch.ones(4)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    cpu = ctypes.CDLL(str(pathlib.Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    call[1] = pointer(torch._C._aoti.unsafe_alloc_void_ptr_from_tensor(tensor), None)
    call[0] = ctypes.cast(cpu.aoti_torch_zero_, ctypes.c_void_p)
    return tensor


for which in sys.argv[1:]:
    if which == "python":
        for _ in range(3):
            join(start(ctypes.cast(call_python, ctypes.c_void_p), None), None)
        print(done)
        continue
    call = early if which == "early" else (ctypes.c_void_p * 2)()
    tensor = zero(call)
    if which == "region":
        compiled().region(call)
    elif which == "libpython":
        begin = ctypes.pythonapi.PyThread_start_new_thread
        begin.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        begin(ctypes.cast(compiled().one, ctypes.c_void_p), ctypes.addressof(call))
        while ctypes.c_float.from_address(tensor.data_ptr()).value:
            time.sleep(0.001)
    else:
        stack_bytes = 96 << 10 if which == "small" else None
        join(early_thread if which == "early" else start(compiled().one, call, stack_bytes), None)
    print(tensor.tolist())
