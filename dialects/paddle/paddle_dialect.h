// PaddlePaddle: level 0 with its tensors described. Needs nothing of Paddle to be built or loaded.

#ifndef TORCHTRACE_DIALECTS_PADDLE_PADDLE_DIALECT_H_
#define TORCHTRACE_DIALECTS_PADDLE_PADDLE_DIALECT_H_

namespace torchtrace {

// Registers the dialect "paddle".
void RegisterPaddleDialect();

}  // namespace torchtrace

#endif  // TORCHTRACE_DIALECTS_PADDLE_PADDLE_DIALECT_H_
