#include <memory>
#include <utility>

#include "serialize/import/importer.h"

namespace torchtrace {
namespace {

JsonFile MakeJsonFile(std::unique_ptr<InputFile> file) {
  const std::shared_ptr<const InputFile> shared = std::move(file);
  return {shared->name(),
          [shared](uint64_t offset, void* to, size_t bytes) {
            const size_t got = shared->ReadAt(offset, to, bytes);
            if (got < bytes) shared->Rest();
            return got;
          },
          [shared] { return shared->status(); }};
}

const Importer kExecutionTraceImporter = {
    "execution_trace", "PyTorch execution trace (JSON)",
    [](const FileHead& head) { return LooksLikeExecutionTrace(head.bytes); },
    [](std::unique_ptr<InputFile> file) -> absl::StatusOr<std::unique_ptr<CallSource>> {
      return MakeExecutionTraceSource(MakeJsonFile(std::move(file)));
    }};

const Importer kChromeTraceImporter = {
    "chrome_trace", "profiler trace of PyTorch (JSON)",
    [](const FileHead& head) { return LooksLikeChromeTrace(head.bytes); },
    [](std::unique_ptr<InputFile> file) -> absl::StatusOr<std::unique_ptr<CallSource>> {
      return MakeChromeTraceSource(MakeJsonFile(std::move(file)));
    }};

}  // namespace

const std::vector<const Importer*>& Importers() {
  static const std::vector<const Importer*>* const importers = new std::vector<const Importer*>{
      &kTorchBenchImporter, &kExecutionTraceImporter, &kChromeTraceImporter, &kTritonBenchImporter,
      &kCallLinesImporter,  &kCallTableImporter,      &kYamlImporter,
      &kTextImporter,  // last, because it accepts anything that looks like a call
  };
  return *importers;
}

const Importer* FindImporter(std::string_view name) {
  for (const Importer* const importer : Importers()) {
    if (importer->name == name) return importer;
  }
  return nullptr;
}

}  // namespace torchtrace
