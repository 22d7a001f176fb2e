"""Threads that C made: some call back into Python, some call one operator alone."""

import ctypes
import pathlib
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F

libc = ctypes.CDLL(None)
create, join = libc.pthread_create, libc.pthread_join
create.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
join.argtypes = [ctypes.c_ulong, ctypes.c_void_p]


def run(function, argument, times):
    for _ in range(times):
        thread = ctypes.c_ulong()
        assert create(ctypes.byref(thread), None, function, argument) == 0
        join(thread, None)


done = []


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
def call_python(_):
    tensor = torch.ones(3)
    done.append(float(F.relu(tensor).sum()))
    return None


if sys.argv[1] == "python":
    run(ctypes.cast(call_python, ctypes.c_void_p), None, 3)
    print(done)
else:
    cpu = ctypes.CDLL(str(pathlib.Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    tensor = torch.ones(4)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    handle = pointer(torch._C._aoti.unsafe_alloc_void_ptr_from_tensor(tensor), None)
    with tempfile.TemporaryDirectory() as folder:
        source = b"""
#include <omp.h>
void* one(void** call) { ((int (*)(void*))call[0])(call[1]); return 0; }
void region(void** call) {
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1) one(call);
}
"""
        command = ["gcc", "-shared", "-fPIC", "-fopenmp", "-x", "c", "-", "-o", f"{folder}/c.so"]
        subprocess.run(command, input=source, check=True)
        c = ctypes.CDLL(f"{folder}/c.so")
    call = (ctypes.c_void_p * 2)(ctypes.cast(cpu.aoti_torch_zero_, ctypes.c_void_p), handle)
    if sys.argv[1] == "region":
        c.region(call)
    else:
        run(ctypes.cast(c.one, ctypes.c_void_p), ctypes.cast(call, ctypes.c_void_p), 1)
    print(tensor.tolist())
