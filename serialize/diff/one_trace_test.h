// What tests of the comparisons within one trace share.

#ifndef TORCHTRACE_SERIALIZE_DIFF_ONE_TRACE_TEST_H_
#define TORCHTRACE_SERIALIZE_DIFF_ONE_TRACE_TEST_H_

#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/diff/one_trace.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {

template <absl::StatusOr<bool> (*kWrite)(Trace*, const OneTraceDiffOptions&, std::ostream*)>
class OneTraceTest : public testing::Test {
 protected:
  explicit OneTraceTest(const nlohmann::json& metadata = nlohmann::json::object()) : trace_(metadata) {}

  std::string Text() { return Report(/*json=*/false); }
  nlohmann::json Json() {
    const std::string report = Report(/*json=*/true);
    return nlohmann::json::parse(report.substr(report.find('\n') + 1));
  }

  FakeTrace trace_;

 private:
  std::string Report(bool json) {
    OneTraceDiffOptions options;
    options.json = json;
    return ReportOf(&trace_, [&options](Trace* trace, std::ostream* out) { return kWrite(trace, options, out); });
  }
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_ONE_TRACE_TEST_H_
