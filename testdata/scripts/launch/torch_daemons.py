"""Daemon threads that are inside torch when the program ends."""

import threading
import time

import torch


def work():
    a = torch.ones(256, 256)
    while True:
        a = a @ a / 256


for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
print("end")
