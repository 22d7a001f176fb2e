#include <utility>

#include "serialize/base/bytes.h"
#include "serialize/configs/dedup.h"
#include "serialize/model/config.h"
#include "serialize/model/torch_names.h"

namespace torchtrace {

std::string_view OneSpelling::Apply(std::string_view identity) {
  const std::string_view api = ReadConfigHead(identity).api;
  std::string canonical = CanonicalName(api);
  if (canonical.find("::") == std::string::npos) return identity;
  // A call of torch.ops.aten.mm at level 1 differs from the operator at level 2 that it calls.
  canonical.insert(0, 1, identity[0]);
  const std::string& first = first_.try_emplace(std::move(canonical), api).first->second;
  if (first == api) return identity;
  respelled_.assign(1, identity[0]);
  AppendString(first, &respelled_);
  respelled_.append(api.data() + api.size(), identity.data() + identity.size());
  return respelled_;
}

}  // namespace torchtrace
