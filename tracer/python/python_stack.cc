// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "tracer/python/python_stack.h"

#include <Python.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "serialize/trace/tables.h"
#include "tracer/cpython/frames.h"
#include "tracer/cpython/objects.h"
#include "tracer/record/recorder.h"

namespace torchtrace {
namespace {

// Of all threads together, for programs that compile code all the time.
constexpr size_t kMaxHeldCodes = 16 << 10;
// Of one thread.
constexpr size_t kMaxPlaces = 128 << 10;

// The code objects that we own references to. Changed with the GIL held. The generation changes before any of them is
// released: while it is unchanged, a thread may compare their addresses with those of its frames' code.
std::atomic<uint64_t> g_generation{1};
std::unordered_set<PyCodeObject*>& HeldCodes() {
  static auto* const held = new std::unordered_set<PyCodeObject*>();
  return *held;
}

void Hold(PyCodeObject* code) {
  if (HeldCodes().size() >= kMaxHeldCodes) ReleaseHeldCode();
  if (HeldCodes().insert(code).second) Py_INCREF(code);
}

// Acquires the GIL unless the thread has it, and saves the error that is set. held() is false if Python is ending, as
// the GIL can't be acquired any more.
class GilForAWhile {
 public:
  GilForAWhile() : had_(PyGILState_Check() == 1) {
    if (!had_ && PythonIsEnding()) return;
    if (!had_) state_ = PyGILState_Ensure();
    held_ = true;
    PyErr_Fetch(&type_, &value_, &traceback_);
  }
  ~GilForAWhile() {
    if (!held_) return;
    PyErr_Restore(type_, value_, traceback_);
    if (!had_) PyGILState_Release(state_);
  }
  GilForAWhile(const GilForAWhile&) = delete;
  GilForAWhile& operator=(const GilForAWhile&) = delete;
  bool held() const { return held_; }

 private:
  const bool had_;
  bool held_ = false;
  PyGILState_STATE state_ = PyGILState_UNLOCKED;
  PyObject *type_ = nullptr, *value_ = nullptr, *traceback_ = nullptr;
};

// Also handles strings that aren't valid UTF-8, as file names may be.
std::string Text(PyObject* text) {
  if (text == nullptr || !PyUnicode_Check(text)) return "";
  PyObject* const bytes = PyUnicode_AsEncodedString(text, "utf-8", "surrogateescape");
  if (bytes == nullptr) {
    PyErr_Clear();
    return "";
  }
  std::string copy(PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes)));
  Py_DECREF(bytes);
  return copy;
}

bool IsIn(std::string_view module, std::string_view package) {
  return !package.empty() && module.substr(0, package.size()) == package &&
         (module.size() == package.size() || module[package.size()] == '.');
}

// The folder of Python's own library, with a slash at the end. Needs the GIL, which reading it may release. So it is
// not a static with an initialiser, for which other threads would wait with the GIL.
const std::string& StandardFolder() {
  static std::string* known = nullptr;
  if (known != nullptr) return *known;
  const std::string base = Text(PySys_GetObject("base_prefix"));
  const std::string lib = Text(PySys_GetObject("platlibdir"));
  const std::string version = std::to_string(PY_MAJOR_VERSION) + "." + std::to_string(PY_MINOR_VERSION);
  // Another thread may have come first.
  if (known == nullptr) known = new std::string(base.empty() ? base : base + "/" + lib + "/python" + version + "/");
  return *known;
}

// Whether the file is in Python's own library. Needs the GIL.
bool IsStandard(const std::string& file) {
  if (file.starts_with("<frozen ")) return true;
  const std::string& folder = StandardFolder();
  return !folder.empty() && file.starts_with(folder) && file.find("-packages/", folder.size()) == std::string::npos;
}

class PythonStack final : public ThreadStack {
 public:
  explicit PythonStack(std::vector<std::string> libraries) : libraries_(std::move(libraries)) {}

  RecordedPlace* Take() override {
    if (g_generation.load(std::memory_order_acquire) != generation_ || places_.size() > kMaxPlaces) Forget();
    return WalkAgain();
  }

 private:
  // A frame and its place; a skipped frame has its caller's place.
  struct Step {
    RunningFrame frame;
    RecordedPlace* place;
  };
  struct Key {
    const RecordedPlace* caller;
    const PyCodeObject* code;
    int position;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const {
      uint64_t hash = reinterpret_cast<uintptr_t>(key.caller) * 0x9e3779b97f4a7c15;
      hash = (hash ^ reinterpret_cast<uintptr_t>(key.code)) * 0xff51afd7ed558ccd;
      hash = (hash ^ static_cast<uint64_t>(key.position)) * 0xc4ceb9fe1a85ec53;
      return static_cast<size_t>(hash ^ (hash >> 32));
    }
  };
  struct KnownCode {
    RecordedCode code;
    bool skipped = false;  // torchtrace's own
  };

  RecordedPlace* WalkAgain() {
    RecordedPlace* const place = Walk();
    if (g_generation.load(std::memory_order_acquire) == generation_) return place;
    // There were too many code objects, and they were released.
    Forget();
    return Walk();
  }

  RecordedPlace* Walk() {
    const size_t all = RunningFrames(frames_.data(), frames_.size());
    if (all == 0) return nullptr;
    const size_t count = std::min(all, frames_.size());
    if (all > count) Recorder::Get()->CountCut("stacks", 1);
    // steps_ is the last call's stack, outermost first: mostly nearly the same.
    size_t same = 0;
    while (same < count && same < steps_.size()) {
      const RunningFrame& now = frames_[count - 1 - same];
      const RunningFrame& before = steps_[same].frame;
      if (now.code != before.code || now.position != before.position) break;
      ++same;
    }
    steps_.resize(same);
    for (size_t i = same; i < count; ++i) {
      const RunningFrame& frame = frames_[count - 1 - i];
      RecordedPlace* const caller = i == 0 ? nullptr : steps_[i - 1].place;
      RecordedPlace* place = caller;
      if (!Find(frame, count - 1 - i, caller, &place)) return nullptr;
      steps_.push_back({frame, place});
    }
    return steps_.back().place;
  }

  // False: it can't be found any more, as Python is ending.
  bool Find(const RunningFrame& frame, size_t index, RecordedPlace* caller, RecordedPlace** place) {
    const Key key = {caller, frame.code, frame.position};
    if (const auto known = places_.find(key); known != places_.end()) {
      *place = known->second;
      return true;
    }
    KnownCode* const code = FindCode(frame, index, caller);
    if (code == nullptr) return false;
    if (!code->skipped) {
      RecordedPlace& made = kept_.emplace_back();
      made.caller = caller;
      made.code = &code->code;
      made.line = static_cast<uint32_t>(LineOf(frame));
      *place = &made;
    }
    places_.emplace(key, *place);
    return true;
  }

  // Whether the code is never the calling line.
  bool IsLibrary(const RecordedCode& code, const RecordedPlace* caller) const {
    if (code.module == "__main__") return false;
    // Generated code counts as its caller's.
    if (code.module.empty() && caller != nullptr) return caller->code->library;
    return IsStandard(code.file) || std::any_of(libraries_.begin(), libraries_.end(),
                                                [&](const std::string& library) { return IsIn(code.module, library); });
  }

  KnownCode* FindCode(const RunningFrame& frame, size_t index, const RecordedPlace* caller) {
    if (const auto known = codes_.find(frame.code); known != codes_.end()) return &known->second;
    const GilForAWhile gil;
    if (!gil.held()) return nullptr;
    Hold(frame.code);
    if (g_generation.load(std::memory_order_relaxed) != generation_) return nullptr;
    KnownCode& made = codes_[frame.code];
    made.code.file = Text(frame.code->co_filename);
    made.code.function = Text(QualifiedName(frame.code));
    PyObject* const globals = GlobalsOf(index);
    if (globals != nullptr && PyDict_Check(globals)) {
      made.code.module = Text(PyDict_GetItemString(globals, "__name__"));
    }
    made.code.library = IsLibrary(made.code, caller);
    made.skipped = IsIn(made.code.module, "torchtrace");
    return &made;
  }

  // Clears what this thread knows.
  void Forget() {
    generation_ = g_generation.load(std::memory_order_acquire);
    steps_.clear();
    places_.clear();
    kept_.clear();
    codes_.clear();
  }

  const std::vector<std::string> libraries_;
  uint64_t generation_ = 0;
  std::array<RunningFrame, kMaxStackFrames> frames_;  // used by Walk
  std::vector<Step> steps_;                           // of the last call, outermost first
  std::unordered_map<Key, RecordedPlace*, KeyHash> places_;
  std::deque<RecordedPlace> kept_;  // a deque, for stable addresses
  std::unordered_map<const PyCodeObject*, KnownCode> codes_;
};

}  // namespace

std::unique_ptr<ThreadStack> MakePythonStack(std::vector<std::string> libraries) {
  return std::make_unique<PythonStack>(std::move(libraries));
}

void ReleaseHeldCode() {
  g_generation.fetch_add(1, std::memory_order_acq_rel);
  std::unordered_set<PyCodeObject*> held;
  held.swap(HeldCodes());
  for (PyCodeObject* const code : held) Py_DECREF(code);
}

}  // namespace torchtrace
