"""Daemon threads that are busy when the program ends."""

import threading
import time


def spin():
    while True:
        sum(range(100))


def sleep():
    while True:
        time.sleep(0.001)


for target in (spin, sleep, spin):
    threading.Thread(target=target, daemon=True).start()
time.sleep(0.05)
print("end")
