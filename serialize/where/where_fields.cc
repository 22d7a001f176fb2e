#include "serialize/where/where_fields.h"

namespace torchtrace {

namespace {

constexpr WhereFieldInfo kFields[] = {
    {"api", WhereField::kApi, WhereKind::kText, WhereScope::kConfig},
    {"level", WhereField::kLevel, WhereKind::kNumber, WhereScope::kConfig},
    {"nargs", WhereField::kNargs, WhereKind::kNumber, WhereScope::kConfig},
    {"arg", WhereField::kArg, WhereKind::kAnything, WhereScope::kConfig},
    {"dtype", WhereField::kDtype, WhereKind::kText, WhereScope::kTensor},
    {"device", WhereField::kDevice, WhereKind::kText, WhereScope::kTensor},
    {"ndim", WhereField::kNdim, WhereKind::kNumber, WhereScope::kTensor},
    {"numel", WhereField::kNumel, WhereKind::kNumber, WhereScope::kTensor},
    {"shape", WhereField::kShape, WhereKind::kDims, WhereScope::kTensor},
    {"size", WhereField::kSize, WhereKind::kNumber, WhereScope::kTensor},
    {"stride", WhereField::kStride, WhereKind::kDims, WhereScope::kTensor},
    {"contiguous", WhereField::kContiguous, WhereKind::kBool, WhereScope::kTensor},
    {"layout", WhereField::kLayout, WhereKind::kText, WhereScope::kTensor},
    {"requires_grad", WhereField::kRequiresGrad, WhereKind::kBool, WhereScope::kTensor},
    {"subclass", WhereField::kSubclass, WhereKind::kText, WhereScope::kTensor},
    {"call", WhereField::kCall, WhereKind::kNumber, WhereScope::kCall},
    {"thread", WhereField::kThread, WhereKind::kNumber, WhereScope::kCall},
    {"thread_name", WhereField::kThreadName, WhereKind::kText, WhereScope::kCall},
    {"process", WhereField::kProcess, WhereKind::kText, WhereScope::kCall},
    {"pid", WhereField::kPid, WhereKind::kNumber, WhereScope::kCall},
    {"host", WhereField::kHost, WhereKind::kText, WhereScope::kCall},
    {"rank", WhereField::kRank, WhereKind::kNumber, WhereScope::kCall},
    {"label", WhereField::kLabel, WhereKind::kText, WhereScope::kCall},
    {"depth", WhereField::kDepth, WhereKind::kNumber, WhereScope::kCall},
    {"returned", WhereField::kReturned, WhereKind::kBool, WhereScope::kEnd},
    {"raised", WhereField::kRaised, WhereKind::kBool, WhereScope::kEnd},
    {"exception", WhereField::kException, WhereKind::kText, WhereScope::kEnd},
    {"duration", WhereField::kDuration, WhereKind::kNumber, WhereScope::kEnd},
};

}  // namespace

const WhereFieldInfo* FindWhereField(std::string_view name) {
  for (const WhereFieldInfo& field : kFields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

std::vector<std::string> WhereFieldNames() {
  std::vector<std::string> names;
  for (const WhereFieldInfo& field : kFields) names.emplace_back(field.name);
  return names;
}

}  // namespace torchtrace
