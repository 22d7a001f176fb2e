#include "serialize/model/torch_names.h"

#include <algorithm>
#include <iterator>

namespace torchtrace {

ValueTag KindOfTorchName(std::string_view name) {
  static constexpr std::string_view kLayouts[] = {"strided",    "sparse_coo", "sparse_csr", "sparse_csc",
                                                  "sparse_bsr", "sparse_bsc", "_mkldnn",    "jagged"};
  static constexpr std::string_view kMemoryFormats[] = {"contiguous_format", "preserve_format", "channels_last",
                                                        "channels_last_3d"};
  const auto is_one_of = [name](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  if (is_one_of(kLayouts)) return ValueTag::kLayout;
  if (is_one_of(kMemoryFormats)) return ValueTag::kMemoryFormat;
  return !name.empty() && name[0] >= 'A' && name[0] <= 'Z' ? ValueTag::kType : ValueTag::kDtype;
}

}  // namespace torchtrace
