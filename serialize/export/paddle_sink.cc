// PaddleAPITest's api_config.txt: each line once, without counts.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/export/exporter.h"
#include "serialize/export/left_out.h"
#include "serialize/export/paddle_form.h"
#include "serialize/export/text_numbers.h"
#include "serialize/model/readable_config.h"

namespace torchtrace {
namespace {

class PaddleSink final : public ConfigSink {
 public:
  explicit PaddleSink(std::ostream* out) : out_(out) {}

  absl::Status Add(const ConfigRow& row) override {
    const absl::StatusOr<std::string> line = FormatPaddle(ReadableConfig(row.identity));
    if (!line.ok()) {
      left_out_.Add(std::string(line.status().message()), row.calls);
      return absl::OkStatus();
    }
    const size_t known = lines_.size();
    lines_.Number(*line);
    if (lines_.size() > known) *out_ << *line << '\n';
    return StreamStatus(*out_);
  }

  absl::Status Finish() override { return FinishStream(out_); }

  std::vector<std::string> notes() const override { return left_out_.Notes("paddle"); }

 private:
  std::ostream* const out_;
  TextNumbers lines_;  // written
  LeftOut left_out_;
};

}  // namespace

extern const Exporter kPaddleExporter;
const Exporter kPaddleExporter = {
    .name = "paddle",
    .help = "PaddleAPITest's lines",
    .levels = false,
    .replayed = true,
    .make_sink = [](std::ostream* out, const ExportOptions&) -> std::unique_ptr<ConfigSink> {
      return std::make_unique<PaddleSink>(out);
    },
};

}  // namespace torchtrace
