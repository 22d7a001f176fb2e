// Calls that say what torch.compile did: "Compiled graph 1/0: f"(file="train.py", line=3). They have the level and the
// keywords of Python functions, since a function that Dynamo makes runs a graph.

#ifndef TORCHTRACE_SERIALIZE_MODEL_GRAPH_CALLS_H_
#define TORCHTRACE_SERIALIZE_MODEL_GRAPH_CALLS_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace torchtrace {

enum class GraphCallKind : uint8_t {
  kNone,
  kRun,
  kBackwardRun,
  kCompilation,
  kBackwardCompilation,
  // In a compilation, without duration:
  kRecompiled,  // why
  kBreak        // where the graph ended, and why
};

struct GraphCall {
  GraphCallKind kind = GraphCallKind::kNone;
  std::string id;        // Dynamo's number: frame and compilation, `1/0`
  std::string function;  // that was compiled
  std::string file;      // and where it is; kBreak: the line that broke the graph
  int64_t line = 0;
  std::string reason;
};

// `run`, `backward compilation`, ...
std::string_view GraphCallName(GraphCallKind kind);

// The API of such a call.
std::string GraphCallApi(GraphCallKind kind, std::string_view id, std::string_view function);

// Of kind kNone if the config is of another call.
GraphCall ReadGraphCall(std::string_view identity);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_GRAPH_CALLS_H_
