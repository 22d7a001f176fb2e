"""torch imported in a thread, used in others."""

import threading

sums = []


def load():
    import torch

    sums.append(torch.ones(2).sum())


threads = [threading.Thread(target=load) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
import torch

print(sums)
print(torch.arange(3) + 1)
