"""Announces each call before and after it, until killed; argument: the file to write to."""

import os
import sys

import torch

x = torch.ones(2, 3)
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
print("ready", flush=True)
number = 0
while True:
    number += 1
    torch.add(x, number)
    os.write(file, b"%d\n" % number)
