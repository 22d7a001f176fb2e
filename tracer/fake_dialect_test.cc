// Tests the tracer without any framework: with a dialect for a package that the test writes. Each test runs a program
// in a child process, as an interpreter can end only once, and reads its log.

// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "local_torch/environment.h"
#include "nlohmann/json.hpp"
#include "serialize/log/log_trace.h"
#include "serialize/model/config.h"
#include "serialize/trace/trace.h"
#include "tracer/framework_dialect.h"
#include "tracer/python/launcher.h"
#include "tracer/record/recorder.h"
#include "tracer/record/recording_options.h"

namespace torchtrace {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// ---- The dialect ----

// Replaces fakeframe.call(name) while the hook is installed.
PyObject* TracedCall(PyObject* original, PyObject* name) {
  ThreadRecorder* const thread = Recorder::Get()->ThisThread();
  Config config;
  config.level = 1;
  config.api = absl::StrCat("fakeframe.", PyUnicode_AsUTF8(name));
  const std::string identity = EncodeConfig(config);
  const std::string no_facets(1, '\0');
  const bool entered = thread != nullptr && thread->Enter(identity + no_facets, static_cast<uint32_t>(identity.size()));
  PyObject* const result = PyObject_CallOneArg(original, name);
  if (entered) thread->Leave();
  return result;
}
PyMethodDef g_traced_call = {"call", TracedCall, METH_O, nullptr};

class FakeHook : public TracingHook {
 public:
  // Level 2 fails to install.
  explicit FakeHook(int level) : level_(level) {}
  int level() const override { return level_; }
  std::string name() const override { return "fake"; }
  absl::Status Install() override {
    if (level_ == 2) return absl::InternalError("the fake hook fails");
    module_ = PyImport_ImportModule("fakeframe");
    original_ = PyObject_GetAttrString(module_, "call");
    PyObject* const traced = PyCFunction_New(&g_traced_call, original_);
    PyObject_SetAttrString(module_, "call", traced);
    Py_DECREF(traced);
    return absl::OkStatus();
  }
  void Uninstall() override { PyObject_SetAttrString(module_, "call", original_); }

 private:
  const int level_;
  PyObject* module_ = nullptr;
  PyObject* original_ = nullptr;
};

class FakeDialect : public FrameworkDialect {
 public:
  std::string name() const override { return "fake"; }
  std::string package() const override { return "fakeframe"; }
  std::vector<int> levels() const override { return {1, 2}; }
  absl::Status CheckVersion(const std::string& version, const RecordingOptions&) const override {
    return version == "1.0" ? absl::OkStatus() : absl::FailedPreconditionError("not made for " + version);
  }
  absl::StatusOr<std::vector<std::unique_ptr<TracingHook>>> CreateHooks(Recorder*,
                                                                        const RecordingOptions& options) override {
    if (getenv("FAKE_NO_HOOKS") != nullptr) return absl::InternalError("no hooks today");
    std::vector<std::unique_ptr<TracingHook>> hooks;
    for (int level : options.levels) hooks.push_back(std::make_unique<FakeHook>(level));
    return hooks;
  }
};

// ---- Running programs ----

struct RunResult {
  int exit_code = -1;
  std::string error;
  std::vector<std::string> calls;  // names of APIs, in order
  std::string end;                 // of the main log, as JSON
};

class FakeDialectTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { RegisterDialect(std::make_unique<FakeDialect>()); }
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/fake_dialect_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    fs::create_directory(folder_ / "log");
    WritePackage("def call(name):\n    return name.upper()\n");
    request_.api_version = kRuntimeApiVersion;
    request_.python_version = local_torch::kPythonVersion;
    request_.package_version = "1.0";
    options_.dialect = "fake";
    options_.quiet = true;
    request_.metadata_json = "{}";
  }
  void TearDown() override { fs::remove_all(folder_); }

  void WritePackage(const std::string& text) { std::ofstream(folder_ / "fakeframe.py") << text; }

  RunResult Run(const std::string& code, std::vector<int> levels = {1}) {
    std::ofstream(folder_ / "script.py") << code;
    const std::string log = (folder_ / "log").string();
    request_.log_folder = log.c_str();
    std::vector<std::string> words = {local_torch::kPythonExecutable, "-B", (folder_ / "script.py").string()};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    request_.argc = static_cast<int>(argv.size());
    argv.push_back(nullptr);
    request_.argv = argv.data();
    options_.levels = std::move(levels);
    const std::string options = FormatRecordingOptions(options_);
    request_.options_json = options.c_str();

    RunResult result;
    const std::string error_file = (folder_ / "error").string();
    const pid_t pid = fork();
    if (pid == 0) {
      const absl::StatusOr<int> exit_code = RunProgram(request_);
      if (exit_code.ok()) _exit(*exit_code);
      std::ofstream(error_file) << exit_code.status().message();
      _exit(125);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    result.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    std::getline(std::ifstream(error_file), result.error, '\0');
    if (!result.error.empty()) return result;
    absl::StatusOr<std::unique_ptr<Trace>> trace = OpenLogs(folder_.string());
    EXPECT_TRUE(trace.ok()) << trace.status();
    if (!trace.ok()) return result;
    const absl::Status read = (*trace)->Read([&](const CallRecord& call) {
      if (call.kind == CallRecord::kEnter) {
        result.calls.emplace_back(ReadConfigHead((*trace)->identity(call.config)).api);
      }
      return absl::OkStatus();
    });
    EXPECT_TRUE(read.ok()) << read;
    for (const ProcessInfo& process : (*trace)->processes()) {
      if (process.metadata->value("role", "") == "main")
        result.end = process.metadata->value("end", nlohmann::json()).dump();
    }
    return result;
  }

  fs::path folder_;
  RecordingOptions options_;
  RuntimeRequest request_ = {};
};

TEST_F(FakeDialectTest, RecordsFromTheImportOn) {
  const RunResult result = Run(R"(
import fakeframe
assert fakeframe.call("a") == "A"
from fakeframe import call
call("b")
call("a")
raise SystemExit(3)
)");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.calls, ElementsAre("fakeframe.a", "fakeframe.b", "fakeframe.a"));
  EXPECT_THAT(result.end, HasSubstr("\"exit_code\":3"));
}

TEST_F(FakeDialectTest, ArmsInWhicheverThreadImports) {
  const RunResult result = Run(R"(
import threading
def work():
    import fakeframe
    fakeframe.call("in_thread")
threads = [threading.Thread(target=work) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
)");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.calls, std::vector<std::string>(8, "fakeframe.in_thread"));
}

TEST_F(FakeDialectTest, FailedImportsAreNotImports) {
  WritePackage("import os\nif os.environ.pop('FAIL', None): raise OSError('first try')\ndef call(name): pass\n");
  const RunResult result = Run(R"(
import importlib, os, traceback
os.environ['FAIL'] = '1'
try:
    import fakeframe
except OSError as error:
    frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert frames == ['<module>', '<module>'], frames
import fakeframe
fakeframe.call("second_try")
)");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.calls, ElementsAre("fakeframe.second_try"));
}

TEST_F(FakeDialectTest, ImportsOfOtherKindsArm) {
  for (const char* import :
       {"import importlib; fakeframe = importlib.import_module('fakeframe')", "fakeframe = __import__('fakeframe')",
        "import importlib.util, sys\n"
        "spec = importlib.util.find_spec('fakeframe')\n"
        "spec.loader = importlib.util.LazyLoader(spec.loader)\n"
        "fakeframe = importlib.util.module_from_spec(spec)\n"
        "sys.modules['fakeframe'] = fakeframe\n"
        "spec.loader.exec_module(fakeframe)\n"
        "fakeframe.call",
        "import importlib.util, sys\n"
        "spec = importlib.util.find_spec('fakeframe')\n"
        "fakeframe = importlib.util.module_from_spec(spec)\n"
        "sys.modules['fakeframe'] = fakeframe\n"
        "spec.loader.exec_module(module=fakeframe)\n"}) {
    fs::remove_all(folder_ / "log");
    fs::create_directory(folder_ / "log");
    const RunResult result = Run(absl::StrCat(import, "\nfakeframe.call('a')\n"));
    EXPECT_EQ(result.exit_code, 0) << import;
    EXPECT_THAT(result.calls, ElementsAre("fakeframe.a")) << import;
  }
}

TEST_F(FakeDialectTest, LeavesTheImportMachineryAsItWas) {
  const RunResult result = Run(R"(
import importlib.machinery, sys, types
import fakeframe
loader = importlib.machinery.SourceFileLoader
assert type(loader.exec_module) is types.FunctionType
assert 'exec_module' not in vars(loader)
assert type(fakeframe.__loader__) is loader and fakeframe.__spec__.loader is fakeframe.__loader__
)");
  EXPECT_EQ(result.exit_code, 0);
}

TEST_F(FakeDialectTest, HooksAreGoneBeforeFinalization) {
  const RunResult result = Run(R"(
import atexit, fakeframe
@atexit.register
def last(): fakeframe.call("in_exit_function")
class AtTheEnd:
    call = fakeframe.call
    def __del__(self, module=fakeframe): module.call("finalizing")
keep = AtTheEnd()
keep.me = keep
)");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.calls, ElementsAre("fakeframe.in_exit_function"));
}

TEST_F(FakeDialectTest, AProgramThatNeverImportsItIsSaidSo) {
  const RunResult result = Run("print('hello')");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.calls, IsEmpty());
  EXPECT_THAT(result.end, HasSubstr("did not import fakeframe"));
}

TEST_F(FakeDialectTest, FailureToMakeHooksStopsTracingOnly) {
  setenv("FAKE_NO_HOOKS", "1", 1);
  const RunResult result = Run("import fakeframe\nassert fakeframe.call('a') == 'A'\nraise SystemExit(5)\n");
  unsetenv("FAKE_NO_HOOKS");
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.calls, IsEmpty());
  EXPECT_THAT(result.end, HasSubstr("no hooks today"));
}

TEST_F(FakeDialectTest, FailureToInstallTakesTheOthersBack) {
  const RunResult result =
      Run("import fakeframe\nassert fakeframe.call.__name__ == 'call'\nfakeframe.call('a')\n", {1, 2});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.calls, IsEmpty());
  EXPECT_THAT(result.end, HasSubstr("level 2 cannot be installed: the fake hook fails"));
}

TEST_F(FakeDialectTest, ForkedChildrenKeepLogsOfTheirOwn) {
  const RunResult result = Run(R"(
import fakeframe, os
fakeframe.call("before")
if os.fork() == 0:
    fakeframe.call("child")
    os._exit(0)
os.wait()
fakeframe.call("after")
)");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.calls, ElementsAre("fakeframe.before", "fakeframe.child", "fakeframe.after"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "log"), fs::directory_iterator()), 2);
}

TEST_F(FakeDialectTest, DeathBySignalIsTheLogsLastWord) {
  const RunResult result = Run(R"(
import fakeframe, os, signal
fakeframe.call("before")
os.kill(os.getpid(), signal.SIGTERM)
)");
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
  EXPECT_THAT(result.calls, ElementsAre("fakeframe.before"));
  EXPECT_THAT(result.end, HasSubstr(absl::StrCat("\"signal\":", SIGTERM)));
}

TEST_F(FakeDialectTest, RefusesBeforeAnythingStarts) {
  EXPECT_THAT(Run("print('it ran')", {1, 4}).error,
              HasSubstr("level 4 cannot be traced by this build: of fake it can trace levels 1, 2"));
  options_.dialect = "other";
  EXPECT_THAT(Run("print('it ran')").error, HasSubstr("unknown dialect 'other': this build knows fake"));
  options_.dialect = "fake";
  request_.package_version = "2.0";
  EXPECT_THAT(Run("print('it ran')").error, HasSubstr("not made for 2.0"));
  request_.package_version = "";
  request_.python_version = "3.1.4";
  EXPECT_THAT(Run("print('it ran')").error, HasSubstr("not for 3.1.4"));
}

}  // namespace
}  // namespace torchtrace
