"""A small training run with PaddlePaddle: layers, operators, an optimizer, values of many kinds."""

import paddle
import paddle.nn.functional as F

paddle.seed(7)


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.hidden = paddle.nn.Linear(4, 8)
        self.out = paddle.nn.Linear(8, 2)

    def forward(self, x):
        return self.out(F.relu(self.hidden(x)))


model = Net()
optimizer = paddle.optimizer.SGD(learning_rate=0.1, parameters=model.parameters())
inputs = paddle.rand([16, 4])
labels = paddle.cast(paddle.sum(inputs, axis=1) > 2.0, "int64")
for _ in range(3):
    loss = F.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()

half = paddle.cast(inputs, paddle.float16)
turned = inputs.T + 1
columns = paddle.concat([inputs[:, :2], inputs[:, 2:]], axis=-1)
placed = paddle.to_tensor([[1, 2], [3, 4]], place=paddle.CPUPlace())
sparse = paddle.sparse.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], [2, 2])
dense = paddle.matmul(sparse.to_dense(), placed.astype("float32"))
reshaped = paddle.reshape(dense, dense.shape)
try:
    paddle.matmul(inputs, inputs)
except ValueError:
    print("shapes do not fit")
print("done", tuple(columns.shape), half.dtype)
