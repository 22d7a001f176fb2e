"""A graph network of torch_geometric learns which of two communities a node belongs to."""

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

torch.manual_seed(3)


def make_graph(nodes, edges):
    """Two halves with four of five edges inside a half; only some nodes' halves are known."""
    half = nodes // 2
    source = torch.randint(nodes, (edges,))
    target = torch.randint(half, (edges,))
    inside = torch.rand(edges) < 0.8
    target = target + half * ((source >= half) == inside)
    edge_index = torch.stack([torch.cat([source, target]), torch.cat([target, source])])
    known = torch.zeros(nodes, dtype=torch.bool)
    known[::7] = True
    y = (torch.arange(nodes) >= half).long()
    return Data(x=torch.randn(nodes, 8), edge_index=edge_index, y=y, known=known)


class GCN(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = GCNConv(8, 16)
        self.conv2 = GCNConv(16, 2)

    def forward(self, data):
        x = F.relu(self.conv1(data.x, data.edge_index))
        x = F.dropout(x, 0.3, training=self.training)
        return F.log_softmax(self.conv2(x, data.edge_index), dim=1)


graph = make_graph(84, 400)
model = GCN()
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
for step in range(10):
    model.train()
    optimizer.zero_grad()
    loss = F.nll_loss(model(graph)[graph.known], graph.y[graph.known])
    loss.backward()
    optimizer.step()
    if step % 3 == 0:
        print(f"step {step}  loss {loss.item():.4f}")

model.eval()
with torch.no_grad():
    right = (model(graph).argmax(dim=1) == graph.y).float().mean().item()
print(f"accuracy {right:.1%}")
total = sum(p.double().sum() for p in model.parameters()).item()
print(f"digest {loss.item().hex()} {total.hex()}")
