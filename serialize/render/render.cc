#include "serialize/render/render.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "serialize/base/command_name.h"
#include "serialize/base/files.h"
#include "serialize/base/text.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/model/config.h"
#include "serialize/trace/trace.h"

namespace torchtrace {
namespace {

// One set of files: for all levels (nullopt), or for one.
using FileSet = std::optional<int>;

class Renderer {
 public:
  Renderer(Trace* trace, const RenderOptions& options)
      : trace_(trace),
        options_(options),
        formats_(options.formats),
        text_([trace](uint32_t config) { return ConfigText(*trace, config) + "\n"; }),
        yaml_([this](uint32_t variant) {
          std::string item = VariantYaml(*trace_, variant);
          if (several_levels_) {
            const ConfigHead head = ReadConfigHead(trace_->identity(trace_->config_of(variant)));
            absl::StrAppend(&item, "  level: ", head.level, "\n");
          }
          return item;
        }),
        stack_text_(*trace),
        stack_format_(options.stack_format.value_or(StackFormatOf(*trace))) {}
  ~Renderer() {
    outputs_.clear();
    while (!created_.empty()) created_.pop_back();
  }
  Renderer(const Renderer&) = delete;
  Renderer& operator=(const Renderer&) = delete;

  absl::StatusOr<RenderReport> Run() {
    const bool ordered = formats_.Has(RenderFile::kStatisticsText) || formats_.Has(RenderFile::kStatisticsYaml);
    absl::StatusOr<Statistics> statistics = CountCalls(trace_, ordered ? ApiOrder::kByCalls : ApiOrder::kNone);
    if (!statistics.ok()) return statistics.status();
    report_.statistics = *std::move(statistics);
    for (const ProcessInfo& process : trace_->processes()) {
      report_.lost_calls += process.damage.lost_calls;
      report_.lost_calls_exact = report_.lost_calls_exact && process.damage.lost_calls_exact;
    }
    if (absl::Status s = LeaveOutStacks(); !s.ok()) return s;
    LeaveOutListing();
    if (formats_.empty()) return std::move(report_);
    MakeSets();
    if (absl::Status s = CheckFolder(); !s.ok()) return s;
    if (absl::Status s = WriteListing(); !s.ok()) return s;
    for (const FileSet set : sets_) {
      if (absl::Status s = WriteSummaries(set); !s.ok()) return s;
    }
    if (absl::Status s = Commit(); !s.ok()) return s;
    return std::move(report_);
  }

 private:
  // A trace without stacks gets no such file, unless it is the only requested one.
  absl::Status LeaveOutStacks() {
    if (!formats_.Has(RenderFile::kStacksYaml) || HasStacks(*trace_)) return absl::OkStatus();
    formats_.Remove(RenderFile::kStacksYaml);
    if (!formats_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError("the trace has no stacks: record them with torchtrace run --stacks");
  }

  void LeaveOutListing() {
    const bool yaml = formats_.Has(RenderFile::kTraceYaml);
    const bool text = formats_.Has(RenderFile::kTraceText);
    if (report_.statistics.calls <= options_.render_limit || (!yaml && !text)) return;
    formats_.Remove(RenderFile::kTraceYaml);
    formats_.Remove(RenderFile::kTraceText);
    const std::string& path = options_.trace_path.empty() ? options_.folder : options_.trace_path;
    report_.listing_left_out = true;
    report_.listing_command = absl::StrCat(CommandName(), " render ", ShellQuote(path), " --formats ",
                                           yaml && text ? "trace"
                                           : yaml       ? "trace.yaml"
                                                        : "trace.txt");
    if (!options_.merge_output) report_.listing_command += " --no-merge-output";
  }

  void MakeSets() {
    if (options_.merge_output) {
      several_levels_ = report_.statistics.levels.size() > 1;
      sets_.push_back(std::nullopt);
      return;
    }
    for (const auto& [level, counts] : report_.statistics.levels) sets_.push_back(level);
  }

  std::string PathOf(RenderFile file, FileSet set) const {
    return (std::filesystem::path(options_.folder) / RenderFileName(file, set)).string();
  }

  absl::Status CheckFolder() {
    if (absl::Status s = CreateFolder(); !s.ok()) return s;
    for (const FileSet set : sets_) {
      for (int i = 0; i < kRenderFileCount; ++i) {
        const RenderFile file = static_cast<RenderFile>(i);
        const std::string path = PathOf(file, set);
        struct stat is;
        if (!formats_.Has(file) || lstat(path.c_str(), &is) != 0) continue;
        if (!S_ISREG(is.st_mode)) {
          const char* const what = S_ISDIR(is.st_mode) ? "a folder" : S_ISLNK(is.st_mode) ? "a link" : "no file";
          return absl::AlreadyExistsError(absl::StrCat(path, " is ", what, "; give another folder for the files"));
        }
        if (!options_.force) return absl::AlreadyExistsError(absl::StrCat(path, " exists; --force replaces it"));
      }
    }
    return absl::OkStatus();
  }

  // With its parents.
  absl::Status CreateFolder() {
    namespace fs = std::filesystem;
    std::error_code error;
    const fs::path folder = fs::absolute(options_.folder, error);
    if (fs::exists(folder, error) && !fs::is_directory(folder, error)) {
      return absl::AlreadyExistsError(
          absl::StrCat("the output folder ", options_.folder, " is a file; give another folder for the files"));
    }
    std::vector<std::string> missing;
    for (fs::path at = folder; !at.empty() && !fs::exists(at, error); at = at.parent_path()) {
      missing.push_back(at.string());
    }
    for (; !missing.empty(); missing.pop_back()) {
      created_.push_back(std::make_unique<Unfinished>(missing.back(), Unfinished::kFile));
    }
    fs::create_directories(folder, error);
    if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot create the folder ", options_.folder));
    return absl::OkStatus();
  }

  absl::Status Commit() {
    const auto lock = Unfinished::Lock();
    for (const std::unique_ptr<OutputFile>& output : outputs_) {
      if (absl::Status s = output->Commit(); !s.ok()) return s;
      report_.files.push_back(output->path());
    }
    for (const std::unique_ptr<Unfinished>& folder : created_) folder->Complete();
    return absl::OkStatus();
  }

  // Opens a file, or returns null if it is not wanted. It stays in outputs_ until all are complete.
  absl::StatusOr<OutputFile*> Open(RenderFile file, FileSet set) {
    if (!formats_.Has(file)) return nullptr;
    absl::StatusOr<std::unique_ptr<OutputFile>> output =
        OutputFile::Create(PathOf(file, set), {.mode = options_.mode, .follow = false});
    if (!output.ok()) return output.status();
    return outputs_.emplace_back(*std::move(output)).get();
  }

  absl::Status WriteListing() {
    const bool stacks = formats_.Has(RenderFile::kStacksYaml);
    if (!formats_.Has(RenderFile::kTraceYaml) && !formats_.Has(RenderFile::kTraceText) && !stacks) {
      return absl::OkStatus();
    }
    struct Listing {
      OutputFile* yaml = nullptr;
      OutputFile* text = nullptr;
      uint64_t calls = 0;
    };
    std::vector<Listing> listings(sets_.size());
    std::array<Listing*, 256> by_level{};
    for (size_t i = 0; i < sets_.size(); ++i) {
      absl::StatusOr<OutputFile*> yaml = Open(RenderFile::kTraceYaml, sets_[i]);
      if (!yaml.ok()) return yaml.status();
      absl::StatusOr<OutputFile*> text = Open(RenderFile::kTraceText, sets_[i]);
      if (!text.ok()) return text.status();
      listings[i] = {*yaml, *text, 0};
      if (!sets_[i].has_value()) {
        by_level.fill(&listings[i]);
      } else if (*sets_[i] >= 0 && *sets_[i] < 256) {
        by_level[static_cast<size_t>(*sets_[i])] = &listings[i];
      }
    }

    LineCache stack_yaml([&](StackId stack) {
      std::string lines = "  stack:\n";
      for (const std::string& frame : stack_text_.Frames(stack, stack_format_)) {
        absl::StrAppend(&lines, "  - ", YamlScalar(frame, /*in_flow=*/false), "\n");
      }
      return lines;
    });
    const absl::Status read = trace_->Read([&](const CallRecord& call) -> absl::Status {
      if (call.kind != CallRecord::kEnter) return absl::OkStatus();
      Listing* const listing = by_level[call.level];
      if (listing == nullptr) return absl::OkStatus();
      ++listing->calls;
      if (stacks) AddStack(call);
      if (listing->text != nullptr) {
        listing->text->Append(text_.Get(call.config));
        if (!listing->text->status().ok()) return listing->text->status();
      }
      if (listing->yaml != nullptr) {
        listing->yaml->Append(yaml_.Get(call.variant));
        if (several_levels_) listing->yaml->Append(absl::StrCat("  depth: ", call.depth, "\n"));
        if (call.stack != kNoStack) {
          listing->yaml->Append(absl::StrCat("  id: ", call.call, "\n"));
          listing->yaml->Append(stack_yaml.Get(call.stack));
        }
        if (!listing->yaml->status().ok()) return listing->yaml->status();
      }
      return absl::OkStatus();
    });
    if (!read.ok()) return read;
    for (const FileSet set : sets_) {
      if (absl::Status s = WriteStacks(set); !s.ok()) return s;
    }
    for (const Listing& listing : listings) {
      if (listing.yaml != nullptr && listing.calls == 0) listing.yaml->Append("[]\n");
    }
    return FinishAll();
  }

  void AddStack(const CallRecord& call) {
    if (call.config >= stacks_of_config_.size()) stacks_of_config_.resize(call.config + size_t{1}, nullptr);
    ApiStacks*& api = stacks_of_config_[call.config];
    if (api == nullptr) {
      const ConfigHead head = ReadConfigHead(trace_->identity(call.config));
      api = &api_stacks_[{FormatApi(head.api), head.level}];
    }
    if (call.stack != kNoStack && api->size() < kStacksPerApi) api->push_back({call.call, call.stack});
  }

  // Writes api_stacks.yaml: the first stacks of every API, in api_tracer's format.
  absl::Status WriteStacks(FileSet set) {
    const absl::StatusOr<OutputFile*> file = Open(RenderFile::kStacksYaml, set);
    if (!file.ok()) return file.status();
    if (*file == nullptr) return absl::OkStatus();
    // In a file for all levels, an API of several levels has a single entry.
    std::map<std::string, ApiStacks> apis;
    for (const auto& [key, stacks] : api_stacks_) {
      if (set.has_value() && key.second != *set) continue;
      ApiStacks& all = apis[key.first];
      all.insert(all.end(), stacks.begin(), stacks.end());
    }
    if (apis.empty()) (*file)->Append("{}\n");
    for (auto& [api, stacks] : apis) {
      std::sort(stacks.begin(), stacks.end());
      if (stacks.size() > kStacksPerApi) stacks.resize(kStacksPerApi);
      (*file)->Append(
          absl::StrCat(YamlScalar(api, /*in_flow=*/false), ":\n  3stacks:", stacks.empty() ? " []" : "", "\n"));
      for (const auto& [call, stack] : stacks) {
        const char* lead = "  - - ";
        for (const std::string& frame : stack_text_.Frames(stack, stack_format_)) {
          (*file)->Append(absl::StrCat(lead, YamlScalar(frame, /*in_flow=*/false), "\n"));
          lead = "    - ";
        }
      }
    }
    return (*file)->status();
  }

  // Frees buffers and file descriptors, and detects a full disk before the next file.
  absl::Status FinishAll() {
    for (const std::unique_ptr<OutputFile>& output : outputs_) {
      if (absl::Status s = output->Finish(); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status WriteSummaries(FileSet set) {
    if (!set.has_value()) return WriteSummaries(set, report_.statistics);
    return WriteSummaries(set, report_.statistics.OfLevel(*set));
  }

  absl::Status WriteSummaries(FileSet set, const Statistics& statistics) {
    absl::StatusOr<OutputFile*> file = Open(RenderFile::kApisText, set);
    if (!file.ok()) return file.status();
    if (*file != nullptr) WriteApis(statistics, *file);
    if (absl::Status s = WriteConfigs(set, statistics); !s.ok()) return s;
    file = Open(RenderFile::kStatisticsText, set);
    if (!file.ok()) return file.status();
    if (*file != nullptr) (*file)->Append(FormatStatisticsText(statistics));
    file = Open(RenderFile::kStatisticsYaml, set);
    if (!file.ok()) return file.status();
    if (*file != nullptr) (*file)->Append(FormatStatisticsYaml(statistics));
    return FinishAll();
  }

  static void WriteApis(const Statistics& statistics, OutputFile* file) {
    std::set<std::string> names;
    for (const ApiCount& api : statistics.apis) names.insert(FormatApi(api.api));
    for (const std::string& name : names) file->Append(name + "\n");
  }

  absl::Status WriteConfigs(FileSet set, const Statistics& statistics) {
    if (!formats_.Has(RenderFile::kConfigsText) && !formats_.Has(RenderFile::kConfigsYaml)) return absl::OkStatus();
    std::vector<std::pair<std::string, ConfigId>> lines;
    lines.reserve(statistics.configs);
    for (ConfigId config = 0; config < statistics.config_calls.size(); ++config) {
      if (statistics.config_calls[config] > 0) lines.emplace_back(text_.Get(config), config);
    }
    std::sort(lines.begin(), lines.end());

    absl::StatusOr<OutputFile*> text = Open(RenderFile::kConfigsText, set);
    if (!text.ok()) return text.status();
    if (*text != nullptr) {
      const std::string* last = nullptr;
      for (const auto& [line, config] : lines) {
        if (last == nullptr || line != *last) (*text)->Append(line);
        last = &line;
      }
    }
    absl::StatusOr<OutputFile*> yaml = Open(RenderFile::kConfigsYaml, set);
    if (!yaml.ok()) return yaml.status();
    if (*yaml != nullptr) {
      if (lines.empty()) (*yaml)->Append("[]\n");
      for (const auto& [line, config] : lines) {
        (*yaml)->Append(ConfigYaml(*trace_, config, statistics.config_calls[config]));
      }
    }
    return absl::OkStatus();
  }

  Trace* const trace_;
  const RenderOptions& options_;
  RenderFormats formats_;  // without what render_limit leaves out
  std::vector<FileSet> sets_;
  bool several_levels_ = false;                       // in the same file
  std::vector<std::unique_ptr<Unfinished>> created_;  // folders, each in the one before
  std::vector<std::unique_ptr<OutputFile>> outputs_;  // in the order opened
  LineCache text_;
  LineCache yaml_;
  StackText stack_text_;
  const StackFormat stack_format_;
  // The first calls with a stack, and their stacks.
  using ApiStacks = std::vector<std::pair<uint64_t, StackId>>;
  static constexpr size_t kStacksPerApi = 3;
  std::map<std::pair<std::string, int>, ApiStacks> api_stacks_;  // by API and level
  std::vector<ApiStacks*> stacks_of_config_;                     // into it, by ConfigId
  RenderReport report_;
};

}  // namespace

absl::StatusOr<RenderReport> Render(Trace* trace, const RenderOptions& options) {
  return Renderer(trace, options).Run();
}

mode_t FileModeOf(const Trace& trace) {
  mode_t mode = 0666;
  for (const ProcessInfo& process : trace.processes()) {
    if (struct stat is; stat(process.path.c_str(), &is) == 0) mode &= is.st_mode;
  }
  return mode;
}

std::vector<std::string> RenderReportLines(const RenderReport& report) {
  std::vector<std::string> lines;
  lines.reserve(report.files.size() + 2);
  for (const std::string& file : report.files) lines.push_back(absl::StrCat("wrote ", file));
  if (report.lost_calls > 0 || !report.lost_calls_exact) {
    lines.push_back(absl::StrCat("the log is damaged: ", CountLostCalls(report.lost_calls, report.lost_calls_exact),
                                 " lost, which no file shows"));
  }
  if (report.listing_left_out) {
    lines.push_back(absl::StrCat("the files that list all ", report.statistics.calls,
                                 " calls were left out; to make them: ", report.listing_command));
  }
  return lines;
}

}  // namespace torchtrace
