// Which versions of torch can be traced, and by which of our modules.

#ifndef TORCHTRACE_DIALECTS_TORCH_VERSIONS_VERSIONS_H_
#define TORCHTRACE_DIALECTS_TORCH_VERSIONS_VERSIONS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/base/version_spans.h"

namespace torchtrace::torch_dialect {

using TorchVersion = MinorVersion;

// A span of versions of torch for which one build of the module works.
struct TorchEra {
  TorchVersion first;
  TorchVersion last;  // the newest one tested
};

// The eras of eras.txt, oldest first.
const std::vector<TorchEra>& TorchEras();

// The era of this version, or FailedPrecondition, which lists the supported versions. `untested`: the newest era is
// also used for versions newer than those tested.
absl::StatusOr<TorchEra> FindTorchEra(std::string_view version, bool untested);

// "torchtrace_torch-2.13.so".
std::string TorchModuleName(const TorchEra& era);
// "2.10 to 2.12", "2.9".
std::string DescribeTorchEra(const TorchEra& era);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_VERSIONS_VERSIONS_H_
