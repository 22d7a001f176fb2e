// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "dialects/paddle/paddle_dialect.h"

#include <Python.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dialects/paddle/describe_paddle.h"
#include "dialects/python/setattr/frame_evaluation.h"
#include "dialects/python/setattr/recorded_calls.h"
#include "serialize/model/levels.h"
#include "tracer/framework_dialect.h"
#include "tracer/record/fatal_signals.h"

namespace torchtrace {
namespace {

// One name a line.
constexpr std::string_view kDefaultApis =
#include "dialects/paddle/default_apis.inc"
    ;

class PaddleDialect : public FrameworkDialect {
 public:
  std::string name() const override { return "paddle"; }
  std::string package() const override { return "paddle"; }
  std::vector<int> levels() const override { return {kSetattrLevel}; }

  std::vector<std::unique_ptr<TracingHook>> CreateEarlyHooks(const RecordingOptions& options) override {
    return python_dialect::MakeOtherLibrariesHooks(package(), options);
  }

  absl::StatusOr<std::vector<std::unique_ptr<TracingHook>>> CreateHooks(Recorder*,
                                                                        const RecordingOptions& options) override {
    if (!paddle_dialect::InitDescribePaddle()) {
      PyErr_Clear();
      return absl::InternalError(
          "this paddle is not as expected: torchtrace was tried with 3.3.1, and needs 3.0 or newer");
    }
    WatchHandlersOf("/libpaddle.so");
    // Never destroyed: calls may be under way when the hook is uninstalled.
    static auto* const calls = new python_dialect::RecordedCalls<paddle_dialect::DescribePaddle>;
    std::vector<std::unique_ptr<TracingHook>> hooks;
    if (python_dialect::NeedsFrameEvaluation(kSetattrLevel)) {
      hooks.push_back(std::make_unique<python_dialect::FrameSlotHook>(kSetattrLevel, paddle_dialect::kCore));
    }
    hooks.push_back(std::make_unique<python_dialect::SetattrHook>(
        calls, python_dialect::FrameworkEntries(package(), kDefaultApis, options)));
    return hooks;
  }
};

}  // namespace

void RegisterPaddleDialect() { RegisterDialect(std::make_unique<PaddleDialect>()); }

}  // namespace torchtrace
