// The fields that a condition of --where can name: one table, which docs/FILTER.md
// describes. Constants; callable from any thread.

#ifndef TORCHTRACE_SERIALIZE_WHERE_WHERE_FIELDS_H_
#define TORCHTRACE_SERIALIZE_WHERE_WHERE_FIELDS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace torchtrace {

enum class WhereField : uint8_t {
  kApi,
  kLevel,
  kNargs,
  kArg,
  kDtype,
  kDevice,
  kNdim,
  kNumel,
  kShape,
  kSize,
  kStride,
  kContiguous,
  kLayout,
  kRequiresGrad,
  kSubclass,
  kCall,
  kThread,
  kThreadName,
  kProcess,
  kPid,
  kHost,
  kRank,
  kLabel,
  kDepth,
  kReturned,
  kRaised,
  kException,
  kDuration,
};

// What its values are; kAnything only for an argument.
enum class WhereKind : uint8_t { kText, kNumber, kBool, kDims, kAnything };

// What has to be known of a call before the field has a value. kTensor: its configuration,
// of which the field is one tensor's.
enum class WhereScope : uint8_t { kConfig, kTensor, kCall, kEnd };

struct WhereFieldInfo {
  const char* name;
  WhereField field;
  WhereKind kind;
  WhereScope scope;
};

// Lives as long as the program; null when there is none of that name.
const WhereFieldInfo* FindWhereField(std::string_view name);

std::vector<std::string> WhereFieldNames();

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_WHERE_WHERE_FIELDS_H_
