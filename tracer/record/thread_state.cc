#include "tracer/record/thread_state.h"

#include <memory>
#include <new>

#include "serialize/model/config.h"

namespace torchtrace {

constinit thread_local ThreadState t_thread TORCHTRACE_EXPORT TORCHTRACE_STATIC_TLS;

namespace {

// Owns the thread's scratch, outside of the little room for thread-local variables (static_tls.h). Its destruction ends
// recording on the thread: the ThreadRecorder, made just before it, is destroyed right after it.
struct Scratch {
  ~Scratch() {
    t_thread.recorder = nullptr;
    ++t_thread.suspended;
  }
  ConfigBuilder config;
  CallKey key;
};

}  // namespace

bool ThreadState::Attach() {
  recorder = Recorder::Get()->ThisThread();
  if (recorder == nullptr) return false;
  static thread_local std::unique_ptr<Scratch> scratch;
  if (scratch == nullptr) scratch.reset(new (std::nothrow) Scratch);
  if (scratch == nullptr) {
    Recorder::Get()->Stop(kNoMemory);
    recorder = nullptr;
    return false;
  }
  config = &scratch->config;
  key = &scratch->key;
  return true;
}

bool ThreadState::DropArguments() {
  const ConfigHead head = ReadConfigHead(config->bytes()->view());
  if (head.api.empty()) return false;
  config->Begin(ConfigBuilder::EncodeHead(head.level, head.api));
  config->Positional(1);
  config->values().Named(ValueTag::kObject, "not described");
  config->Keywords(0);
  return true;
}

}  // namespace torchtrace
