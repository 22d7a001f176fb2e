// A test file with a case for each config, for plain pytest.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "serialize/base/text.h"
#include "serialize/export/exporter.h"
#include "serialize/export/python_code.h"
#include "serialize/flow/target.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/model/torch_types.h"

namespace torchtrace {
namespace {

constexpr size_t kMostId = 120;
// A floating-point tensor with more bytes is written without its contents.
constexpr size_t kMostContents = 4096;

constexpr char kTest[] = R"(

def described(result):
    """Shapes and dtypes of the tensors in a result."""
    if isinstance(result, torch.Tensor):
        return [(tuple(result.shape), result.dtype)]
    if isinstance(result, dict):
        result = result.values()
    if isinstance(result, (list, tuple)) or type(result).__name__ == "dict_values":
        return [one for item in result for one in described(item)]
    return []


@pytest.mark.parametrize("call, raised, expected", CASES)
def test_call(call, raised, expected):
    _random.manual_seed(0)
    torch.manual_seed(0)
    if raised is not None:
        with pytest.raises(Exception) as error:
            call()
        assert raised in [kind.__name__ for kind in type(error.value).__mro__]
        return
    result = described(call())
    if expected is not None:
        assert [dtype for _, dtype in result] == [dtype for _, dtype in expected]
        # None: it depends on the values.
        assert all(shape in (None, mine) for (mine, _), (shape, _) in zip(result, expected))
)";

// A recorded call of a config: the first that returned, otherwise the first that raised.
struct Case {
  enum Outcome : uint8_t { kNone, kRaised, kReturned };
  std::string facets;
  std::string notes;
  std::string exception;
  Outcome outcome = kNone;
  std::string result;
  uint64_t calls = 0;
};

constexpr std::string_view kInPlace[] = {
    "__iadd__", "__isub__", "__imul__", "__itruediv__", "__ifloordiv__", "__imod__",    "__ipow__",    "__imatmul__",
    "__iand__", "__ior__",  "__ixor__", "__ilshift__",  "__irshift__",   "__setitem__", "__delitem__", "__set__",
};

bool InPlace(const Config& config) {
  const std::string_view api = config.api;
  // An operator's name without the overload: aten::add_ of aten::add_.Tensor.
  std::string_view name = api.substr(0, api.find("::") == std::string_view::npos ? api.size() : api.rfind('.'));
  name = name.substr(name.find_last_of(".:") + 1);
  const bool dunder = name.ends_with("__");
  if (dunder ? std::find(std::begin(kInPlace), std::end(kInPlace), name) != std::end(kInPlace) : name.ends_with('_')) {
    return true;
  }
  return std::any_of(config.kwargs.begin(), config.kwargs.end(),
                     [](const auto& kwarg) { return kwarg.first == "out"; });
}

bool HasBool(const Value& value) {
  return (value.tag == ValueTag::kTensor && value.text == "bool") ||
         std::any_of(value.items.begin(), value.items.end(), HasBool);
}

// Whether the result's shape depends on the contents of the tensors.
bool ShapeDependsOnValues(const Config& config) {
  for (const std::string_view part : {"nonzero", "unique", "masked_select", "argwhere", "bincount", "repeat_interleave",
                                      "where", "tensor_split", "histogram", "combinations", "one_hot", "item"}) {
    if (config.api.find(part) != std::string::npos) return true;
  }
  const bool index = config.api.find("__getitem__") != std::string::npos || config.api.starts_with("aten::index");
  return index &&
         std::any_of(config.args.begin() + std::min<ptrdiff_t>(1, std::ssize(config.args)), config.args.end(), HasBool);
}

void AddExpected(const Value& value, bool shapes, std::vector<std::string>* expected) {
  if (value.tag == ValueTag::kTensor) {
    std::vector<std::string> dims;
    bool known = shapes && (value.tensor_bits & kTensorShapeUnknown) == 0 && IsDtypeName(value.text);
    for (const Dim& dim : value.shape) {
      known = known && dim.has_value();
      dims.push_back(absl::StrCat(dim.value_or(0)));
    }
    const std::string dtype = IsDtypeName(value.text) ? absl::StrCat("torch.", value.text) : "None";
    expected->push_back(absl::StrCat("(", known ? PythonTuple(dims) : "None", ", ", dtype, ")"));
  }
  for (const Value& item : value.items) AddExpected(item, shapes, expected);
}

class PytestSink : public CallSink {
 public:
  PytestSink(std::ostream* out, const ExportOptions& options) : out_(out), traces_(options.traces) {}

  absl::Status Begin(const Trace& trace, std::string_view) override {
    trace_ = &trace;
    return absl::OkStatus();
  }

  absl::Status Add(const CallRecord& record) override {
    if (record.kind == CallRecord::kEnter) {
      const std::string_view identity = trace_->identity(record.config);
      const auto [at, fresh] = numbers_.try_emplace(std::string(identity), order_.size());
      if (fresh) {
        order_.push_back(at->first);
        cases_.emplace_back();
      }
      Case& one = cases_[at->second];
      ++one.calls;
      if (one.outcome != Case::kReturned)
        waiting_.emplace(record.call, std::pair(at->second, std::string(record.notes)));
      return absl::OkStatus();
    }
    const auto waiting = waiting_.find(record.call);
    if (waiting == waiting_.end()) return absl::OkStatus();
    Case& one = cases_[waiting->second.first];
    const Case::Outcome outcome = record.kind == CallRecord::kRaise ? Case::kRaised : Case::kReturned;
    // Nested calls, and calls on several threads, may end in any order.
    if (outcome > one.outcome) {
      one.outcome = outcome;
      one.exception = outcome == Case::kRaised ? record.exception : "";
      one.notes = std::move(waiting->second.second);
      one.result = record.result.values;
      one.facets = record.variant == kLostId ? "" : trace_->facets(record.variant);
    }
    waiting_.erase(waiting);
    return absl::OkStatus();
  }

  absl::Status End() override {
    waiting_.clear();
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    std::vector<std::string> names;
    for (const std::string& trace : traces_) names.push_back(QuoteText(trace));
    *out_ << "# A case for each config of " << absl::StrJoin(names, ", ") << ", written by torchtrace.\n#\n"
          << "#   pytest FILE -m 'api(name=\"torch.add\")'    those of one API (pytest 8.3)\n\n"
          << "import operator\n"
          << "import warnings\n\nimport pytest\n"
          << CodePrelude() << "\n\ndef api(name):\n    with warnings.catch_warnings():\n"
          << "        # Of marks that no ini file has.\n        warnings.simplefilter(\"ignore\")\n"
          << "        return pytest.mark.api(name=name)\n\n\nCASES = [\n";
    for (size_t i = 0; i < order_.size(); ++i) WriteCase(order_[i], cases_[i]);
    *out_ << "]\n" << kTest;
    return FinishStream(out_);
  }

  std::vector<std::string> notes() const override { return left_out_.Notes("pytest"); }

 private:
  void WriteCase(const std::string& identity, const Case& one) {
    const Config config = ReadableConfig(identity);
    if (const std::string_view why = WhyOutOfPlace(config.api); !why.empty()) {
      return left_out_.Add(std::string(why), one.calls);
    }
    const CallTarget target = TargetOf(config.api, config.level);
    const std::vector<TensorFacet> facets = ReadableFacets(one.facets);
    const std::vector<TensorNote> notes = ReadTensorNotes(one.notes);
    const bool gradients = !InPlace(config) && config.level != 2;
    const absl::StatusOr<PythonArguments> arguments =
        WriteArguments(config, [&](const Value& value, uint64_t position) -> absl::StatusOr<std::string> {
          // Calls depend on the values of integers; some, such as a Cholesky decomposition, on other numbers too.
          const bool discrete = value.text == "bool" || value.text.find("int") != std::string::npos;
          const TensorNote* const note = FindNote(notes, position);
          const bool few = note != nullptr && note->contents && note->contents->size() <= kMostContents;
          absl::StatusOr<std::string> tensor = PythonTensor(value, note, /*contents=*/discrete || few, config);
          const TensorFacet* const facet = FindFacet(facets, position);
          if (tensor.ok() && facet != nullptr && facet->requires_grad && gradients) *tensor += ".requires_grad_()";
          return tensor;
        });
    if (!arguments.ok()) return left_out_.Add(std::string(arguments.status().message()), one.calls);
    absl::StatusOr<PythonCall> call = WriteCall(target, *arguments);
    if (!call.ok()) return left_out_.Add(std::string(call.status().message()), one.calls);
    if (call->statement) {
      // A lambda contains an expression, not a statement.
      const std::vector<std::string>& args = arguments->args;
      call->text = target.kind == CallTarget::kSetter
                       ? absl::StrCat("setattr(", args[0], ", \"", target.name, "\", ", args[1], ")")
                       : absl::StrCat("operator.setitem(", absl::StrJoin(args, ", "), ")");
    }
    std::string line = FormatFoldedConfig(config);
    if (line.size() > kMostId) line = absl::StrCat(std::string(CutUtf8(line, kMostId)), "...");
    const std::string id = PythonString(line).value_or(absl::StrCat("\"", target.name, "\""));
    std::string raised = "None";
    if (one.outcome == Case::kRaised) {
      const std::string name = one.exception.substr(one.exception.rfind('.') + 1);
      raised = IsIdentifier(name) ? absl::StrCat("\"", name, "\"") : "\"Exception\"";
    }
    std::string expected = "None";
    if (!one.result.empty()) {
      std::vector<std::string> tensors;
      const std::vector<Value> result = ReadableResult(one.result);
      for (const Value& value : result) AddExpected(value, !ShapeDependsOnValues(config), &tensors);
      if (const CallAutocast autocast = AutocastOf(config, result); autocast != CallAutocast()) {
        call->text = absl::StrCat(PythonAutocast(autocast), "(lambda: ", call->text, ")()");
      }
      expected = absl::StrCat("[", absl::StrJoin(tensors, ", "), "]");
    }
    const std::string name = PythonString(config.api).value_or("\"\"");
    *out_ << "    pytest.param(\n        lambda: " << call->text << ",\n        " << raised << ",\n        " << expected
          << ",\n        id=" << id << ",\n        marks=api(" << name << "),\n    ),\n";
  }

  std::ostream* const out_;
  const std::vector<std::string> traces_;
  const Trace* trace_ = nullptr;
  absl::flat_hash_map<std::string, size_t> numbers_;  // of configs, by their bytes
  std::vector<std::string> order_;
  std::vector<Case> cases_;
  absl::flat_hash_map<uint64_t, std::pair<size_t, std::string>> waiting_;  // open calls, by number
  LeftOut left_out_;
};

}  // namespace

extern const Exporter kPytestExporter;
const Exporter kPytestExporter = {
    .name = "pytest",
    .help = "a test file with a case for each config, for plain pytest",
    .make_calls = [](std::ostream* out, const ExportOptions& options) -> std::unique_ptr<CallSink> {
      return std::make_unique<PytestSink>(out, options);
    },
};

}  // namespace torchtrace
