"""The four calls that docs and tests show in every form."""

import torch

tensor1 = torch.randn(2, 3, device="cpu")
tensor2 = torch.ones(2, 3)
result = torch.add(tensor1, tensor2, alpha=10)
final_sum = result.sum()
