#include "serialize/trace/collective_traits.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "serialize/base/text.h"
#include "serialize/model/levels.h"
#include "serialize/model/value.h"

namespace torchtrace {
namespace {

constexpr std::string_view kOperatorsOfFunctions = "torch.ops._c10d_functional.";

// By the name without underscores around it.
struct Spelling {
  std::string_view name;
  std::string_view operation;
};
constexpr Spelling kSpellings[] = {
    {"all_gather", "all_gather"},
    {"all_gather_base", "all_gather_into_tensor"},
    {"all_gather_coalesced", "all_gather_coalesced"},
    {"all_gather_into_tensor", "all_gather_into_tensor"},
    {"all_gather_into_tensor_coalesced", "all_gather_into_tensor_coalesced"},
    {"all_gather_into_tensor_out", "all_gather_into_tensor"},
    {"all_gather_object", "all_gather_object"},
    {"all_gather_tensor", "all_gather_into_tensor"},
    {"all_reduce", "all_reduce"},
    {"all_reduce_coalesced", "all_reduce_coalesced"},
    {"all_to_all", "all_to_all"},
    {"all_to_all_single", "all_to_all_single"},
    {"allgather", "all_gather"},
    {"allgather_base", "all_gather_into_tensor"},
    {"allgather_coalesced", "all_gather_coalesced"},
    {"allgather_into_tensor_coalesced", "all_gather_into_tensor_coalesced"},
    {"allreduce", "all_reduce"},
    {"allreduce_coalesced", "all_reduce_coalesced"},
    {"alltoall", "all_to_all"},
    {"alltoall_base", "all_to_all_single"},
    {"barrier", "barrier"},
    {"broadcast", "broadcast"},
    {"broadcast_object_list", "broadcast_object_list"},
    {"gather", "gather"},
    {"gather_object", "gather_object"},
    {"init_process_group", "init_process_group"},
    {"irecv", "recv"},
    {"isend", "send"},
    {"monitored_barrier", "monitored_barrier"},
    {"new_group", "new_group"},
    {"recv", "recv"},
    {"recv_any_source", "recv"},
    {"reduce", "reduce"},
    {"reduce_scatter", "reduce_scatter"},
    {"reduce_scatter_base", "reduce_scatter_tensor"},
    {"reduce_scatter_tensor", "reduce_scatter_tensor"},
    {"reduce_scatter_tensor_coalesced", "reduce_scatter_tensor_coalesced"},
    {"reduce_scatter_tensor_out", "reduce_scatter_tensor"},
    {"scatter", "scatter"},
    {"scatter_object_list", "scatter_object_list"},
    {"send", "send"},
};

std::string_view SpelledOperation(std::string_view name) {
  while (name.starts_with('_')) name.remove_prefix(1);
  while (name.ends_with('_')) name.remove_suffix(1);
  const auto* const found = std::find_if(std::begin(kSpellings), std::end(kSpellings),
                                         [name](const Spelling& spelling) { return spelling.name == name; });
  return found == std::end(kSpellings) ? "" : found->operation;
}

// The operation of an API, as functions are named; empty: none.
std::string_view OperationOfApi(std::string_view api, int level) {
  if (const size_t colons = api.find("::"); colons != std::string_view::npos) {
    const std::string_view space = api.substr(0, colons), name = api.substr(colons + 2, api.find('.') - colons - 2);
    const bool known = space == "c10d" || space.starts_with("_c10d_functional");
    return known && level == kDispatchLevel ? SpelledOperation(name) : "";
  }
  if (level > kFunctionLevel) return "";
  if (api.starts_with(kOperatorsOfFunctions)) {
    api.remove_prefix(kOperatorsOfFunctions.size());
    return SpelledOperation(api.substr(0, api.find('.')));
  }
  return api.starts_with("torch.distributed.") ? SpelledOperation(api.substr(api.rfind('.') + 1)) : "";
}

bool IsGroup(const Value& value) {
  return value.tag == ValueTag::kObject &&
         (value.text == "torch.ScriptObject" || value.text.find("ProcessGroup") != std::string::npos);
}

bool IsReduction(const Value& value) {
  return value.tag == ValueTag::kObject &&
         (value.text.find("ReduceOp.") != std::string::npos || value.text.find("RedOpType.") != std::string::npos);
}

std::string GroupName(const Value& group) {
  constexpr std::string_view kBeforeName = "ProcessGroup.";
  const size_t at = group.text.find(kBeforeName);
  return at == std::string::npos ? kUnnamedGroup : group.text.substr(at + kBeforeName.size());
}

void AddTensors(const Value& value, std::vector<const Value*>* tensors) {
  if (value.tag == ValueTag::kTensor) return tensors->push_back(&value);
  for (const Value& item : value.items) AddTensors(item, tensors);
}

std::string ShapeText(const Value& tensor) {
  std::string text = "[";
  for (const Dim& size : tensor.shape) {
    absl::StrAppend(&text, text.size() == 1 ? "" : ", ", size.has_value() ? absl::StrCat(*size) : "?");
  }
  return text + "]";
}

// -1: not known.
int64_t ElementsIn(const std::vector<const Value*>& tensors) {
  int64_t all = 0;
  for (const Value* const tensor : tensors) {
    int64_t elements = 1;
    for (const Dim& size : tensor->shape) {
      if (!size.has_value() || __builtin_mul_overflow(elements, *size, &elements) || elements < 0) return -1;
    }
    if (__builtin_add_overflow(all, elements, &all)) return -1;
  }
  return all;
}

// Of a tensor that is split along its first dimension. None: it isn't, or not in these sizes.
std::vector<int64_t> ElementsOfParts(const Value& tensor, const Value* sizes) {
  const auto is_size = [](const Value& size) { return size.tag == ValueTag::kInt && size.integer >= 0; };
  if (sizes == nullptr || !std::all_of(sizes->items.begin(), sizes->items.end(), is_size)) return {};
  Value row = tensor;
  if (!row.shape.empty()) row.shape.erase(row.shape.begin());
  const int64_t of_row = ElementsIn({&row});
  std::vector<int64_t> parts;
  for (const Value& size : sizes->items) {
    if (of_row < 0 || __builtin_mul_overflow(size.integer, of_row, &parts.emplace_back())) return {};
  }
  return parts;
}

// Reads the arguments of one call.
class TraitsReader {
 public:
  TraitsReader(const Config& config, CollectiveTraits* traits) : config_(config), traits_(*traits) {}

  // False: the rank is no member of the group.
  bool Read() {
    if (!ReadGroup()) return false;
    if (traits_.kind != CollectiveTraits::kCollective) {
      ReadPeer();
    } else {
      if (IsOneOf(traits_.operation, {"broadcast", "reduce", "gather", "scatter", "broadcast_object_list",
                                      "gather_object", "scatter_object_list"})) {
        ReadRoot();
      }
      if (traits_.operation.starts_with("all_reduce") || traits_.operation.starts_with("reduce")) ReadReduction();
    }
    ReadTensors();
    if (traits_.operation == "all_to_all") ReadListsOfAllToAll();
    if (traits_.operation == "all_to_all_single") ReadSplitsOfAllToAll();
    return true;
  }

 private:
  const Value* Keyword(std::string_view name) const {
    for (const auto& [keyword, value] : config_.kwargs) {
      if (keyword == name) return &value;
    }
    return nullptr;
  }

  template <typename Wanted>
  const Value* Find(const Wanted& wanted) const {
    for (const Value& value : config_.args) {
      if (wanted(value)) return &value;
    }
    for (const auto& [keyword, value] : config_.kwargs) {
      if (wanted(value)) return &value;
    }
    return nullptr;
  }

  bool ReadGroup() {
    const Value* const named = Keyword("group");
    // GroupMember.NON_GROUP_MEMBER
    if (named != nullptr && named->tag == ValueTag::kInt) return false;
    if (const Value* const group = Find(IsGroup); group != nullptr) {
      traits_.group = GroupName(*group);
      return true;
    }
    traits_.group = kDefaultGroup;
    if (!config_.api.starts_with("_c10d_functional") && !config_.api.starts_with(kOperatorsOfFunctions)) {
      // A list of ranks, a mesh of devices.
      if (named != nullptr && named->tag == ValueTag::kString) traits_.group = named->text;
      if (named != nullptr && named->tag != ValueTag::kNone && named->tag != ValueTag::kString) {
        traits_.group = kUnnamedGroup;
      }
      return true;
    }
    const Value* const name = Keyword("group_name");
    if (name != nullptr && name->tag == ValueTag::kString) {
      traits_.group = name->text;
      return true;
    }
    for (const Value& value : config_.args) {
      if (value.tag == ValueTag::kString) traits_.group = value.text;  // the last one
    }
    return true;
  }

  std::optional<int64_t> Number(std::initializer_list<std::string_view> keywords) const {
    for (const std::string_view name : keywords) {
      const Value* const value = Keyword(name);
      if (value != nullptr && value->tag == ValueTag::kInt) return value->integer;
    }
    return std::nullopt;
  }

  std::vector<int64_t> Positional() const {
    std::vector<int64_t> numbers;
    for (const Value& value : config_.args) {
      if (value.tag == ValueTag::kInt) numbers.push_back(value.integer);
    }
    return numbers;
  }

  void ReadRoot() {
    std::optional<int64_t> root = Number({"src", "dst", "group_src", "group_dst"});
    if (const std::vector<int64_t> numbers = Positional(); !root.has_value() && !numbers.empty()) root = numbers[0];
    if (root.has_value()) traits_.root = absl::StrCat(*root);
  }

  void ReadReduction() {
    const Value* reduction = Find(IsReduction);
    if (reduction == nullptr) {
      const auto is_text = [](const Value& value) { return value.tag == ValueTag::kString; };
      const bool functional = config_.api.starts_with("_c10d_functional") || config_.api.starts_with("torch.ops.");
      reduction = functional ? Find(is_text) : Keyword("reduceOp");
    }
    traits_.reduction =
        reduction == nullptr ? "sum" : absl::AsciiStrToLower(reduction->text.substr(reduction->text.rfind('.') + 1));
  }

  void ReadPeer() {
    const std::vector<int64_t> numbers = Positional();
    if (traits_.is_operator) {
      const bool any = config_.api.find("any_source") != std::string::npos;
      traits_.peer_in_group = true;
      if (!any && !numbers.empty()) traits_.peer = numbers[0];
      if (numbers.size() > (any ? 0 : 1)) traits_.tag = numbers[any ? 0 : 1];
      return;
    }
    traits_.peer = Number({"group_src", "group_dst"});
    traits_.peer_in_group = traits_.peer.has_value();
    if (!traits_.peer.has_value()) traits_.peer = Number({"src", "dst"});
    if (!traits_.peer.has_value() && !numbers.empty()) traits_.peer = numbers[0];
    traits_.tag = Number({"tag"}).value_or(0);
  }

  void ReadTensors() {
    const std::string& operation = traits_.operation;
    // Their sizes are the objects'.
    if (operation.ends_with("barrier") || operation.find("_object") != std::string::npos) return;
    std::vector<const Value*> tensors;
    const auto first_args = [&](size_t count) {
      for (size_t i = 0; i < std::min(count, config_.args.size()); ++i) AddTensors(config_.args[i], &tensors);
    };
    if (operation == "gather" && traits_.is_operator) {
      // What is given; only the root has what is gathered.
      if (config_.args.size() > 1) AddTensors(config_.args[1], &tensors);
    } else if (IsOneOf(operation, {"gather", "scatter", "all_gather"})) {
      first_args(1);
    } else {
      for (const Value& value : config_.args) {
        if (IsGroup(value)) break;
        AddTensors(value, &tensors);
      }
      for (const auto& [keyword, value] : config_.kwargs) AddTensors(value, &tensors);
    }
    traits_.elements = ElementsIn(tensors);
    std::vector<std::string> shapes, dtypes, devices;
    for (const Value* const tensor : tensors) {
      shapes.push_back(ShapeText(*tensor));
      if (std::find(dtypes.begin(), dtypes.end(), tensor->text) == dtypes.end()) dtypes.push_back(tensor->text);
      const std::string device = tensor->device.substr(0, tensor->device.find(':'));
      if (std::find(devices.begin(), devices.end(), device) == devices.end()) devices.push_back(device);
    }
    traits_.shapes = absl::StrJoin(shapes, ", ");
    traits_.dtypes = absl::StrJoin(dtypes, ", ");
    traits_.devices = absl::StrJoin(devices, ", ");
  }

  // By position, or by one of the keywords.
  const Value* Argument(size_t position, std::initializer_list<std::string_view> keywords) const {
    for (const std::string_view keyword : keywords) {
      if (const Value* const value = Keyword(keyword); value != nullptr) return value;
    }
    return position < config_.args.size() ? &config_.args[position] : nullptr;
  }

  void ReadListsOfAllToAll() {
    for (const auto& [list, parts, all] :
         {std::tuple(Argument(0, {"output_tensor_list"}), &traits_.receives, &traits_.receives_in_all),
          std::tuple(Argument(1, {"input_tensor_list"}), &traits_.sends, &traits_.sends_in_all)}) {
      if (list == nullptr) continue;
      std::vector<const Value*> tensors;
      AddTensors(*list, &tensors);
      for (const Value* const tensor : tensors) parts->push_back(ElementsIn({tensor}));
      *all = ElementsIn(tensors);
    }
  }

  void ReadSplitsOfAllToAll() {
    const bool functional =
        config_.api.starts_with("_c10d_functional") || config_.api.starts_with(kOperatorsOfFunctions);
    // A function's group comes last, an operator's before the sizes.
    const size_t sizes = functional ? 1 : traits_.is_operator ? 3 : 2;
    const Value* const input = Argument(functional ? 0 : 1, {"input"});
    const Value* const output = functional ? input : Argument(0, {"output"});
    if (input == nullptr || output == nullptr) return;
    traits_.receives = ElementsOfParts(*output, Argument(sizes, {"output_split_sizes"}));
    traits_.sends = ElementsOfParts(*input, Argument(sizes + 1, {"input_split_sizes"}));
    if (!functional) traits_.receives_in_all = ElementsIn({output});
    traits_.sends_in_all = ElementsIn({input});
  }

  const Config& config_;
  CollectiveTraits& traits_;
};

}  // namespace

std::string OperationOf(std::string_view api, int level) { return std::string(OperationOfApi(api, level)); }

CollectiveTraits CollectiveTraitsOf(const Config& config) {
  CollectiveTraits traits;
  traits.operation = OperationOfApi(config.api, config.level);
  if (traits.operation.empty()) return traits;
  traits.is_operator = config.level == kDispatchLevel;
  traits.kind = traits.operation == "send"   ? CollectiveTraits::kSend
                : traits.operation == "recv" ? CollectiveTraits::kReceive
                                             : CollectiveTraits::kCollective;
  if (!TraitsReader(config, &traits).Read()) traits.kind = CollectiveTraits::kNone;
  return traits;
}

}  // namespace torchtrace
