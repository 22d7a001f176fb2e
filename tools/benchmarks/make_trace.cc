// `tools/make_trace`: a trace of any size and mix, for measuring readers. Equal options make equal calls. Level-1 calls
// contain level-2 calls, as in a real trace.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <system_error>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "CLI/Validators.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/edit/edit.h"
#include "serialize/model/config.h"

namespace torchtrace {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string folder;
  uint64_t calls = 1'000'000;
  uint64_t apis = 200;
  uint64_t configs = 2'000;
  uint64_t processes = 1;
  uint64_t threads = 1;
  double skew = 1.1;        // of Zipf's law over the configs
  double nested = 1.5;      // level-2 calls in a level-1 call, on average
  double raising = 0.0005;  // share of calls
  uint64_t leave_out = 0;   // number of calls left out at level 2, evenly spread
  uint64_t seed = 1;
};

Value TensorOf(std::mt19937_64* random) {
  static constexpr const char* kDtypes[] = {"float32", "float32", "float16", "bfloat16", "int64", "bool"};
  Value tensor;
  tensor.tag = ValueTag::kTensor;
  tensor.text = kDtypes[(*random)() % std::size(kDtypes)];
  tensor.device = "cpu";
  for (uint64_t rank = (*random)() % 5; rank > 0; --rank) {
    const bool power_of_two = (*random)() % 4 != 0;
    tensor.shape.push_back(power_of_two ? int64_t{1} << (*random)() % 12 : static_cast<int64_t>((*random)() % 5000));
  }
  return tensor;
}

std::string MakeIdentity(int level, uint64_t api, uint64_t number, std::mt19937_64* random) {
  Config config;
  config.level = level;
  config.api = absl::StrCat(level == 1 ? "torch.function_" : "aten::operator_", api);
  for (uint64_t tensors = (*random)() % 4; tensors > 0; --tensors) config.args.push_back(TensorOf(random));
  Value integer;  // makes two configs different
  integer.tag = ValueTag::kInt;
  integer.integer = static_cast<int64_t>(number);
  config.kwargs.emplace_back("dim", integer);
  return EncodeConfig(config);
}

// Draws indices below `count` by Zipf's law.
class Zipf {
 public:
  Zipf(uint64_t count, double skew) {
    double sum = 0;
    for (uint64_t i = 1; i <= count; ++i) cumulative_.push_back(sum += std::pow(static_cast<double>(i), -skew));
  }
  uint64_t operator()(std::mt19937_64* random) const {
    const double at = std::uniform_real_distribution<double>(0, cumulative_.back())(*random);
    return static_cast<uint64_t>(std::lower_bound(cumulative_.begin(), cumulative_.end(), at) - cumulative_.begin());
  }

 private:
  std::vector<double> cumulative_;
};

class Maker {
 public:
  Maker(const Options& options, TraceWriter* writer)
      : options_(options), writer_(writer), random_(options.seed), zipf_(options.configs, options.skew) {
    for (uint64_t i = 0; i < options.configs; ++i) {
      for (const int level : {1, 2}) {
        identities_[level - 1].push_back(MakeIdentity(level, i % options.apis, i, &random_));
      }
    }
  }

  absl::Status Make() {
    for (uint64_t process = 0; process < options_.processes; ++process) {
      const nlohmann::json metadata = {{"torchtrace", "make_trace"},
                                       {"role", "main"},
                                       {"pid", 1000 + process},
                                       {"host", "made"},
                                       {"rank", process},
                                       {"world_size", options_.processes},
                                       {"dialect", "torch"},
                                       {"levels", {1, 2}},
                                       {"end", {{"exit_code", 0}}}};
      if (auto added = writer_->AddProcess(metadata); !added.ok()) return added.status();
    }
    const uint64_t places = options_.processes * options_.threads;
    while (made_ < options_.calls) {
      // A thread makes many calls before another one continues.
      process_ = static_cast<uint32_t>(random_() % places % options_.processes);
      thread_ = random_() % options_.threads;
      for (int i = 0; i < 200 && made_ < options_.calls; ++i) {
        if (absl::Status status = Call(1); !status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

 private:
  // One call and those in it. Calls that are left out draw random numbers too, so that the others stay the same.
  absl::Status Call(int level) {
    ++made_;
    const bool written = !LeftOut(level);
    const std::string& identity = identities_[level - 1][zipf_(&random_)];
    time_ += 200 + random_() % 400;
    if (written) {
      if (absl::Status s = writer_->Enter(process_, thread_, time_, identity, ""); !s.ok()) return s;
    }
    if (level == 1) {
      for (auto inside = std::poisson_distribution<int>(options_.nested)(random_); inside > 0 && made_ < options_.calls;
           --inside) {
        if (absl::Status status = Call(2); !status.ok()) return status;
      }
    }
    time_ += 500 + random_() % 5000;
    const bool raises = std::bernoulli_distribution(options_.raising)(random_);
    if (!written) return absl::OkStatus();
    return raises ? writer_->Raise(process_, thread_, time_, "RuntimeError") : writer_->Leave(process_, thread_, time_);
  }

  bool LeftOut(int level) {
    if (level != 2 || left_out_ == options_.leave_out || made_ <= left_out_ * (options_.calls / options_.leave_out)) {
      return false;
    }
    ++left_out_;
    return true;
  }

  const Options options_;
  TraceWriter* const writer_;
  std::mt19937_64 random_;
  const Zipf zipf_;
  std::vector<std::string> identities_[2];  // by level
  uint64_t made_ = 0;
  uint64_t left_out_ = 0;
  uint64_t time_ = 1'000'000'000;
  uint32_t process_ = 0;
  uint64_t thread_ = 0;
};

absl::Status MakeTrace(const Options& options) {
  const fs::path log = fs::path(options.folder) / "log" / "made.ttlog";
  std::error_code error;
  fs::create_directories(log.parent_path(), error);
  if (error)
    return absl::PermissionDeniedError(absl::StrCat("cannot make ", log.parent_path().string(), ": ", error.message()));
  auto writer = TraceWriter::Create(log.string());
  if (!writer.ok()) return writer.status();
  if (absl::Status status = Maker(options, writer->get()).Make(); !status.ok()) return status;
  return (*writer)->Finish();
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Makes a trace of any size and mix, for measuring what reads traces.", "tools/make_trace");
  const CLI::AsNumberWithUnit count(
      std::map<std::string, uint64_t>{{"k", 1'000}, {"M", 1'000'000}, {"G", 1'000'000'000}});
  app.add_option("-o,--output", options.folder, "Folder for the trace; it gets log/made.ttlog")->required();
  app.add_option("--calls", options.calls, "Calls at both levels, such as 500k or 100M")
      ->transform(count)
      ->capture_default_str();
  app.add_option("--apis", options.apis, "APIs at each level")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--configs", options.configs, "Configurations at each level")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--processes", options.processes, "Processes, ranks 0 to N-1")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--threads", options.threads, "Threads of each process")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--skew", options.skew, "Zipf's exponent: how much the first configurations prevail")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
  app.add_option("--nested", options.nested, "Level-2 calls in a level-1 call, on average")
      ->check(CLI::Range(0.01, 100.0))
      ->capture_default_str();
  app.add_option("--raising", options.raising, "Share of calls that raise")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--leave-out", options.leave_out,
                 "Leaves out so many calls of level 2, evenly spread, for a trace that is nearly another one")
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Another trace of the same kind")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (absl::Status status = MakeTrace(options); !status.ok()) {
    std::fprintf(stderr, "make_trace: %s\n", std::string(status.message()).c_str());
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace torchtrace

int main(int argc, char** argv) { return torchtrace::Main(argc, argv); }
