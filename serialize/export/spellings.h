// How other tools spell values, and group operators.

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

// Collects configs as benchmarks want them: by operator, sorted by name, and in each
// the different inputs in the order first seen, with counts. Configs that differ only
// in what the inputs don't say, such as a device's number, become one.

struct OperatorGroup {
  TextNumbers inputs;
  std::vector<uint64_t> calls;  // by number of the inputs
};

class OperatorGroups {
 public:
  void Add(const ConfigRow& row);

  const std::map<std::string, OperatorGroup>& groups() const { return groups_; }
  const LeftOut& left_out() const { return left_out_; }

 private:
  std::map<std::string, OperatorGroup> groups_;
  LeftOut left_out_;
};

// A call of an operator as TorchBench, TritonBench and BackendBench know it: the
// operator's name as str(OpOverload) gives it, and its inputs as a Python expression
// that their loader evaluates.
//
//   aten.addmm.default
//   ((T([768], f16), T([512, 768], f16), T([768, 768], f16, stride=(1, 768))), {})
//
// The loader knows T, ST, inf, torch, th and the abbreviations of dtypes, and names
// operators through `aten` alone. A tensor's device is not said, other devices by their
// type.

// Errors say why there is no such name or expression: "not of level 2", "a torch.Generator".
absl::StatusOr<std::string> OperatorName(const Config& config);
absl::StatusOr<std::string> OperatorInputs(const Config& config);

// A config as PaddleAPITest spells it:
//
//   torch.add(Tensor([2, 3],"float32"), Tensor([2, 3],"float32"), alpha=10, )
//
// Its parser evaluates tokens and knows no escapes, so that not every value has a
// spelling.

// One line without its end. Errors say what has no spelling: "a dict".
absl::StatusOr<std::string> FormatPaddle(const Config& config);

// What the forms that another tool evaluates have in common: a text that grows, what all of them spell alike, and the
// first thing that has no spelling. To derive from; of one thread.

class SpellingWriter {
 protected:
  // The text, or Unimplemented with what has no spelling. Ends the use of the writer.
  absl::StatusOr<std::string> Finish();

  // Of several, the first one is told.
  void Cannot(std::string_view what);
  // A string or container of which not all is there.
  void RefuseCut(const Value& value);
  // A tensor of unknown shape, or of another layout than strided.
  void RefuseUnusual(const Value& tensor);

  // None, True, False, ints and Ellipsis; false, and nothing written, for all else.
  bool AppendPlain(const Value& value);
  // `[2, 3]`; in parentheses, one alone keeps its comma.
  void AppendDims(const std::vector<Dim>& dims, char open, char close);

  std::string out_;

 private:
  std::string problem_;
};

// What Python expressions have in common, whoever evaluates them.
class PythonWriter : protected SpellingWriter {
 public:
  virtual ~PythonWriter() = default;

 protected:
  void Append(const Value& value);
  void TorchName(std::string_view name);

  virtual void Float(double value) = 0;
  virtual void Text(std::string_view text) = 0;
  // Tensors, dtypes, devices, and all that not every reader has a word for.
  virtual void AppendOther(const Value& value) = 0;

 private:
  void Items(std::string_view open, const Value& value, std::string_view close);
  void Bytes(std::string_view bytes);
};

// What a value is, in the words of "can't be written: a storage": for formats that
// have no notation for it.

// With its article; "a value" for what every format can write.
std::string_view ValueKind(const Value& value);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_SPELLINGS_H_
