// Fuzzes the parser of --where: any text is either rejected with a column, or its
// ToString() parses to the same condition, and evaluating it does not crash.
//
//   bazel build --config=fuzz //serialize:where_fuzz
//   .build/fuzz-bin/serialize/where_fuzz testdata/fuzz/where

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "serialize/testing/fake_trace.h"
#include "serialize/where/where.h"

namespace torchtrace {
namespace {

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

void Fuzz(std::string_view text) {
  const absl::StatusOr<Where> where = Where::Parse(text);
  if (!where.ok()) {
    Require(where.status().message().substr(0, 7) == "column ", "an error without a column");
    return;
  }
  const std::string said = where->ToString();
  const absl::StatusOr<Where> again = Where::Parse(said);
  // ToString() may nest too deeply: it adds parentheses.
  if (!again.ok()) {
    Require(again.status().message().find("less nesting") != std::string_view::npos, "what it says does not parse");
    return;
  }
  Require(again->ToString() == said, "what it says says something else");

  const Config config = MakeConfig(1, "torch.add", {TensorValue({2, 3}), IntValue(1)}, {{"alpha", TextValue("x")}});
  const std::vector<TensorFacet> facets = {{0, true, "Parameter"}};
  WhereSubject subject;
  subject.config = &config;
  subject.facets = &facets;
  Require(where->Ask(subject) == again->Ask(subject), "what it says answers something else");
  const CallRecord entry;
  const ProcessInfo process;
  subject.entry = &entry;
  subject.process = &process;
  subject.ended = true;
  Require(where->Ask(subject) != Truth::kUnknown, "nothing is unknown, but the answer is");
}

}  // namespace
}  // namespace torchtrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  torchtrace::Fuzz(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
