// Text: the lines of api_configs.txt, docs/TEXT.md.

#include "absl/strings/str_format.h"
#include "serialize/export/sinks.h"
#include "serialize/forms/text_form.h"
#include "serialize/model/readable_config.h"

namespace torchtrace {
namespace {

class TextSink final : public ConfigSink {
 public:
  TextSink(std::ostream* out, bool counts) : out_(out), counts_(counts) {}

  absl::Status Add(const ConfigRow& row) override {
    if (counts_) *out_ << absl::StrFormat("%7d  ", row.calls);
    *out_ << FormatConfig(ReadableConfig(row.identity)) << '\n';
    return StreamStatus(*out_);
  }

  absl::Status Finish() override { return FinishStream(out_); }

 private:
  std::ostream* const out_;
  const bool counts_;
};

}  // namespace

std::unique_ptr<ConfigSink> MakeTextSink(std::ostream* out, const SinkOptions& options) {
  return std::make_unique<TextSink>(out, options.counts);
}

}  // namespace torchtrace
