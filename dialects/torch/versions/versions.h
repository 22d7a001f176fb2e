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

// Versions of torch that are alike in all that the module is compiled against: one build of it serves them.
struct TorchEra {
  TorchVersion first;
  TorchVersion last;  // of which it was tested
};

// Those of eras.txt, oldest first.
const std::vector<TorchEra>& TorchEras();

// The era that serves this version; FailedPrecondition says which there are. `untested`: the newest one serves what
// is newer than it was tested with.
absl::StatusOr<TorchEra> FindTorchEra(std::string_view version, bool untested);

// "torchtrace_torch-2.13.so".
std::string TorchModuleName(const TorchEra& era);
// "2.10 to 2.12", "2.9".
std::string DescribeTorchEra(const TorchEra& era);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_VERSIONS_VERSIONS_H_
