// PaddleAPITest's api_config.txt: each line once, without counts.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "serialize/base/files.h"
#include "serialize/base/text.h"
#include "serialize/export/exporter.h"
#include "serialize/export/spellings.h"
#include "serialize/export/table_writer.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"
#include "serialize/model/value.h"

namespace torchtrace {
namespace {

// Writes values and remembers the first that has no spelling.
class PaddleWriter : private SpellingWriter {
 public:
  absl::StatusOr<std::string> Write(const Config& config) {
    if (FormatApi(config.api) != config.api) Cannot("a name that needs quotes");
    out_ = absl::StrCat(config.api, "(");
    for (const Value& arg : config.args) {
      Append(arg);
      out_ += ", ";
    }
    for (const auto& [name, value] : config.kwargs) {
      // The characters that the text form quotes: f(a=1), but f("a b"=1).
      if (name.find_first_of(" \"'=()[]{},\\") != std::string::npos) Cannot("an argument's name that needs quotes");
      absl::StrAppend(&out_, name, "=");
      Append(value);
      out_ += ", ";
    }
    out_ += ')';
    return Finish();
  }

 private:
  void Items(std::string_view open, const std::vector<Value>& items, std::string_view close) {
    out_ += open;
    for (const Value& item : items) {
      Append(item);
      out_ += ',';
    }
    out_ += close;
  }

  void Float(double value) {
    if (std::isinf(value)) {
      out_ += value < 0 ? "-math.inf" : "math.inf";
    } else {
      out_ += FormatFloat(value);
    }
  }

  // Writes the text in quotes, without escapes; a quote in it would end it.
  void Text(std::string_view text) {
    out_ += '"';
    out_ += text;
    out_ += '"';
    while (!text.empty()) {
      const Utf8Char c = DecodeUtf8(text);
      if (c.kind != Utf8Char::kScalar || NeedsEscape(c.code_point) || c.code_point == '"' || c.code_point == '\\') {
        return Cannot("a string with a quote, a backslash or a control character");
      }
      text.remove_prefix(c.bytes);
    }
  }

  void Place(std::string_view device) {
    const std::string_view type = device.substr(0, device.find(':'));
    const std::string place = type == "cuda" ? absl::StrCat("gpu", std::string(device.substr(4))) : std::string(device);
    if (type == "undefined") {
      Cannot("a tensor that has no memory yet");
    } else if (device != "cpu" && type != "cuda" && type != "gpu") {
      Cannot("a device that is neither cpu nor gpu");
    }
    absl::StrAppend(&out_, "Place(", place, ")");
  }

  void Tensor(const Value& value) {
    RefuseUnusual(value);
    out_ += "Tensor(";
    AppendDims(value.shape, '[', ']');
    out_ += ',';
    Text(value.text);
    if (value.device != "cpu") {
      out_ += ", place=";
      Place(value.device);
    }
    if ((value.tensor_bits & kTensorHasStride) != 0) {
      out_ += ", strides=";
      AppendDims(value.strides, '[', ']');
    }
    out_ += ')';
  }

  void Append(const Value& value) {
    // Dicts and bytes have no spelling even when they are whole.
    if (value.tag != ValueTag::kDict && value.tag != ValueTag::kBytes) RefuseCut(value);
    if (AppendPlain(value)) return;
    switch (value.tag) {
      case ValueTag::kFloat:
        return Float(value.real);
      case ValueTag::kComplex:
        out_ += "complex(";
        Float(value.real);
        out_ += ',';
        Float(value.imaginary);
        out_ += ')';
        return;
      case ValueTag::kString:
        return Text(value.text);
      case ValueTag::kList:
        return Items("list[", value.items, "]");
      case ValueTag::kTuple:
        return Items("tuple(", value.items, ")");
      case ValueTag::kSize: {
        std::vector<Dim> dims;
        for (const Value& item : value.items) {
          dims.push_back(item.tag == ValueTag::kInt ? Dim(item.integer) : Dim());
        }
        out_ += "paddle.Size(";
        AppendDims(dims, '[', ']');
        out_ += ')';
        return;
      }
      case ValueTag::kSlice: {
        out_ += "slice(";
        const char* separator = "";
        for (const Value& item : value.items) {
          out_ += separator;
          separator = ",";
          Append(item);
        }
        out_ += ')';
        return;
      }
      case ValueTag::kTensor:
        return Tensor(value);
      case ValueTag::kDtype:
        if (FormatApi(value.text) != value.text) Cannot("a dtype whose name needs quotes");
        absl::StrAppend(&out_, "Dtype(", value.text, ")");
        return;
      case ValueTag::kDevice:
        return Place(value.text);
      case ValueTag::kType:
        if (FormatApi(value.text) != value.text) Cannot("a type whose name needs quotes");
        absl::StrAppend(&out_, "type(", value.text, ")");
        return;
      default:
        return Cannot(ValueKind(value));
    }
  }
};

}  // namespace

absl::StatusOr<std::string> FormatPaddle(const Config& config) { return PaddleWriter().Write(config); }

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
    .write = WritesConfigs{[](std::ostream* out, const ExportOptions&) -> std::unique_ptr<ConfigSink> {
      return std::make_unique<PaddleSink>(out);
    }},
};

}  // namespace torchtrace
