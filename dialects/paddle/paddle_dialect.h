// PaddlePaddle: level 0, with Paddle's tensors described. It is built and loaded without Paddle.

#ifndef TORCHTRACE_DIALECTS_PADDLE_PADDLE_DIALECT_H_
#define TORCHTRACE_DIALECTS_PADDLE_PADDLE_DIALECT_H_

namespace torchtrace {

// Registers the dialect "paddle".
void RegisterPaddleDialect();

}  // namespace torchtrace

#endif  // TORCHTRACE_DIALECTS_PADDLE_PADDLE_DIALECT_H_
