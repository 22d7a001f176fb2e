// How other tools spell values and group operators.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_SPELLINGS_H_
#define TORCHTRACE_SERIALIZE_EXPORT_SPELLINGS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/export/exporter.h"
#include "serialize/export/table_writer.h"
#include "serialize/model/config.h"
#include "serialize/model/value.h"

namespace torchtrace {

struct OperatorGroup {
  TextNumbers inputs;
  std::vector<uint64_t> calls;  // by number of the inputs
};

// Collects configs in the order of benchmark files: by operator, sorted by name, and within an
// operator its distinct inputs in the order first seen, with counts. Configs that differ only
// in what the inputs leave out, such as a device's number, become one.
class OperatorGroups {
 public:
  void Add(const ConfigRow& row);

  const std::map<std::string, OperatorGroup>& groups() const { return groups_; }
  const LeftOut& left_out() const { return left_out_; }

 private:
  std::map<std::string, OperatorGroup> groups_;
  LeftOut left_out_;
};

// A call of an operator as TorchBench, TritonBench and BackendBench write it: the
// operator's name as str(OpOverload) gives it, and its inputs as a Python expression
// that their loader evaluates.
//
//   aten.addmm.default
//   ((T([768], f16), T([512, 768], f16), T([768, 768], f16, stride=(1, 768))), {})
//
// The loader knows T, ST, inf, torch, th and the abbreviations of dtypes, and finds
// operators only in `aten`. A tensor's device is left out; other devices are written by type.
//
// Errors say why there is no such name or expression: "not of level 2", "a torch.Generator".
absl::StatusOr<std::string> OperatorName(const Config& config);
absl::StatusOr<std::string> OperatorInputs(const Config& config);

// A config as PaddleAPITest spells it, on one line without the line break:
//
//   torch.add(Tensor([2, 3],"float32"), Tensor([2, 3],"float32"), alpha=10, )
//
// Its parser evaluates tokens and knows no escapes, so some values have no spelling.
// Errors say which: "a dict".
absl::StatusOr<std::string> FormatPaddle(const Config& config);

// Base class of the forms that another tool evaluates: the growing text, the spellings that they share, and the first
// value without a spelling. Not thread-safe.
class SpellingWriter {
 protected:
  // The text, or Unimplemented with the value that has no spelling. Don't use the writer afterwards.
  absl::StatusOr<std::string> Finish();

  // Finish reports the first one.
  void Cannot(std::string_view what);
  // A string or container that was recorded only in part.
  void RefuseCut(const Value& value);
  // A tensor of unknown shape or with a layout other than strided.
  void RefuseUnusual(const Value& tensor);

  // None, True, False, ints and Ellipsis; returns false, without writing, for anything else.
  bool AppendPlain(const Value& value);
  // `[2, 3]`; a single one in parentheses keeps its comma, `(2,)`.
  void AppendDims(const std::vector<Dim>& dims, char open, char close);

  std::string out_;

 private:
  std::string problem_;
};

// What the forms that are Python expressions share.
class PythonWriter : protected SpellingWriter {
 public:
  virtual ~PythonWriter() = default;

 protected:
  void Append(const Value& value);
  void TorchName(std::string_view name);

  virtual void Float(double value) = 0;
  virtual void Text(std::string_view text) = 0;
  // Tensors, dtypes, devices, and everything else that readers spell differently.
  virtual void AppendOther(const Value& value) = 0;

 private:
  void Items(std::string_view open, const Value& value, std::string_view close);
  void Bytes(std::string_view bytes);
};

// The kind of a value for messages such as "can't be written: a storage", with its article;
// "a value" for kinds that every format can write.
std::string_view ValueKind(const Value& value);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_SPELLINGS_H_
