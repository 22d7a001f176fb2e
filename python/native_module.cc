// The Python module torchtrace._native: the functions that the package torchtrace needs from the runtime library, which
// is loaded first. It opens and closes sessions and renders their files, as cmd/run does for a whole program; the
// package decides when and how often. Needs the GIL.

// Python.h must come first.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"
#include "dialects/scan/scan.h"
#include "dialects/table/dialects.h"
#include "nlohmann/json.hpp"
#include "python/attacher.h"
#include "python/held_signals.h"
#include "python/python_dialect.h"
#include "python/verb_reader.h"
#include "replay/worker_process.h"
#include "serialize/apis/apis.h"
#include "serialize/base/files.h"
#include "serialize/export/exporter.h"
#include "serialize/export/exports.h"
#include "serialize/export/file_series.h"
#include "serialize/export/timing_export.h"
#include "serialize/flow/flow.h"
#include "serialize/forms/forms.h"
#include "serialize/import/open_trace.h"
#include "serialize/model/levels.h"
#include "serialize/render/render.h"
#include "serialize/trace/trace.h"
#include "serialize/where/call_selection.h"
#include "tracer/launch/output_folder.h"
#include "tracer/launch/run_ending.h"
#include "tracer/launch/run_metadata.h"
#include "tracer/launch/runtime_api.h"
#include "tracer/python/session.h"
#include "tracer/record/recorder.h"
#include "tracer/record/recording_options.h"
#include "tracer/record/standard_error.h"

namespace torchtrace {
namespace {

// The session that this module began. Shared, since the program may end while another thread closes the session.
struct ModuleSession {
  explicit ModuleSession(RunEnding::Options options) : ending(std::move(options)), pid(getpid()) {}
  RunEnding ending;
  const pid_t pid;
  std::unique_ptr<OutputFolder> folder;  // null: it is the attacher's, who renders the files, ...
  std::unique_ptr<FolderLock> lock;      // ... and which this process shares
  Attacher attacher;
};
std::shared_ptr<ModuleSession>& Session() {
  static auto* const session = new std::shared_ptr<ModuleSession>;  // never freed: exit handlers run late
  return *session;
}

// An attacher is asked about whenever a frame of the log is full.
constexpr uint32_t kAttachedFrameBytes = 256 << 10;

PyObject* Raise(const absl::Status& status) {
  PyObject* type = PyExc_RuntimeError;
  if (absl::IsInvalidArgument(status)) type = PyExc_ValueError;
  if (absl::IsAlreadyExists(status)) type = PyExc_FileExistsError;
  if (absl::IsNotFound(status)) type = PyExc_FileNotFoundError;
  if (absl::IsPermissionDenied(status) || absl::IsResourceExhausted(status)) type = PyExc_OSError;
  const std::string text(status.message());
  PyErr_SetString(type, text.c_str());
  return nullptr;
}

// Reads a list of str; false with a Python error set if it is none.
bool Strings(PyObject* list, std::vector<std::string>* strings) {
  PyObject* const fast = PySequence_Fast(list, "a list of str is expected");
  if (fast == nullptr) return false;
  bool good = true;
  for (Py_ssize_t i = 0; good && i < PySequence_Fast_GET_SIZE(fast); ++i) {
    Py_ssize_t bytes;
    const char* const text = PyUnicode_AsUTF8AndSize(PySequence_Fast_GET_ITEM(fast, i), &bytes);
    good = text != nullptr;
    if (good) strings->emplace_back(text, static_cast<size_t>(bytes));
  }
  Py_DECREF(fast);
  return good;
}

struct BeginArguments {
  std::string folder;
  std::string shown_name;
  std::string tags;
  bool extension = false;  // a dialect written in Python
  Attacher attacher;       // the task is empty: the program itself asks for the trace
  RecordingOptions recording;
  RunMetadata metadata;
  ScannedPython scanned;
};

// Finds the APIs for level 0. It may have to scan a library, which takes time.
absl::Status FindApis(BeginArguments* arguments) {
  RecordingOptions* const recording = &arguments->recording;
  if (std::find(recording->levels.begin(), recording->levels.end(), kSetattrLevel) == recording->levels.end()) {
    return absl::OkStatus();
  }
  if (!recording->apis.empty()) {
    recording->default_apis = false;
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> list = absl::UnknownError("");
  Py_BEGIN_ALLOW_THREADS;
  list = FindTracedList(arguments->scanned, recording);
  Py_END_ALLOW_THREADS;
  if (!list.ok()) return list.status();
  arguments->metadata.api_list = *std::move(list);
  return absl::OkStatus();
}

// Sets the session's folder: a new one, or the attacher's.
absl::Status TakeFolder(const BeginArguments& arguments, ModuleSession* session) {
  if (!arguments.attacher.task.empty()) {
    absl::StatusOr<std::unique_ptr<FolderLock>> lock = FolderLock::Share(arguments.folder + "/log");
    if (!lock.ok()) return absl::PermissionDeniedError(lock.status().message());
    session->lock = *std::move(lock);
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<OutputFolder>> folder = OutputFolder::Claim(
      arguments.folder, {.force = arguments.recording.force,
                         .readable = arguments.recording.readable,
                         .another = "give another output",
                         .occupied = "force=True overwrites the trace in it, output gives another"});
  if (absl::IsAlreadyExists(folder.status())) return folder.status();
  if (!folder.ok()) return absl::PermissionDeniedError(folder.status().message());  // an OSError in any case
  session->folder = *std::move(folder);
  return absl::OkStatus();
}

absl::Status BeginTrace(BeginArguments arguments) {
  if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
    return absl::FailedPreconditionError("torchtrace traces Python's main interpreter; this is a subinterpreter");
  }
  RecordingOptions& recording = arguments.recording;
  absl::Status status = CheckDialect(recording, arguments.metadata.package_version);
  if (status.ok() && !arguments.extension) status = FindApis(&arguments);
  if (!status.ok()) return status;
  absl::StatusOr<GlobFilter> globs = FindRecordedNames(arguments.scanned, recording);
  if (!globs.ok()) return globs.status();
  auto ending = std::make_shared<ModuleSession>(RunEnding::Options{arguments.folder, arguments.shown_name, recording});
  if (status = TakeFolder(arguments, ending.get()); !status.ok()) return status;

  SessionOptions session;
  session.recorder.log_folder = arguments.folder + "/log";
  session.recorder.metadata_json = FormatRunMetadata(arguments.metadata, recording);
  session.recorder.tags = arguments.tags;
  recording.include = std::move(globs->include);
  recording.exclude = std::move(globs->exclude);
  session.recorder.recording = std::move(recording);
  if (ending->folder == nullptr) {
    ending->attacher = std::move(arguments.attacher);
    session.recorder.goes_on = WatchAttacher(ending->attacher);
    session.recorder.max_frame_bytes = kAttachedFrameBytes;
  }
  session.ended = [its = ending](const RuntimeEnd& end) {
    if (end.provisional != 0) {
      if (its->folder != nullptr) its->ending.RenderEarly();
      return;
    }
    if (its->folder != nullptr) its->ending.Finish();
    its->folder.reset();
    its->lock.reset();
  };
  status = BeginSession(std::move(session));
  if (status.ok() && ending->folder != nullptr) {
    status = ending->folder->RemoveEarlierTrace();
    if (!status.ok()) EndSession();
  }
  if (!status.ok()) {
    if (ending->folder != nullptr) ending->folder->Drop();
    return status;
  }
  Session() = std::move(ending);
  return absl::OkStatus();
}

// begin(options, ...): opens a session and its trace's folder. `options`: RecordingOptions as JSON. The last four are
// of the torchtrace that has attached to the program; `task` is empty if none has.
PyObject* Begin(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* const kNames[] = {"options",   "folder",          "shown",         "package_version",
                                       "extension", "package_folders", "script_folder", "command",
                                       "program",   "python",          "executable",    "tags",
                                       "task",      "locks",           "deadline_ns",   "run",
                                       nullptr};
  const char *options, *folder, *shown, *package_version, *script_folder, *python, *executable, *tags, *task, *run;
  PyObject *package_folders, *command, *program;
  int extension, locks;
  long long deadline_ns;
  BeginArguments begin;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "$sssspOsOOsssspLs", const_cast<char**>(kNames), &options, &folder,
                                   &shown, &package_version, &extension, &package_folders, &script_folder, &command,
                                   &program, &python, &executable, &tags, &task, &locks, &deadline_ns, &run) ||
      !Strings(package_folders, &begin.scanned.package_folders) || !Strings(command, &begin.metadata.command) ||
      !Strings(program, &begin.metadata.program)) {
    return nullptr;
  }
  absl::StatusOr<RecordingOptions> recording = ParseRecordingOptions(options);
  if (!recording.ok()) return Raise(recording.status());
  if (const absl::Status combined = CheckRecordingOptions(*recording); !combined.ok()) return Raise(combined);
  const absl::StatusOr<RenderFormats> formats = RenderFormats::Parse(recording->formats);
  if (!formats.ok()) return Raise(formats.status());
  begin.recording = *std::move(recording);
  begin.folder = folder;
  begin.shown_name = shown;
  begin.tags = tags;
  begin.extension = extension != 0;
  begin.scanned.dialect_version = package_version;
  begin.scanned.python = executable;
  begin.scanned.folder = script_folder;
  if (!begin.recording.quiet) begin.scanned.tell = [](const std::string& text) { SayLines(text); };
  begin.metadata.python_executable = executable;
  begin.metadata.python_version = python;
  begin.metadata.package_version = package_version;
  begin.metadata.variables = DialectInfoOr(begin.recording.dialect).variables;
  begin.metadata.recorded_by = *task == '\0' ? "torchtrace.trace" : "torchtrace attach";
  begin.metadata.run = run;
  begin.attacher = {.task = task, .locks = locks != 0, .deadline_ns = deadline_ns};
  if (absl::Status status = BeginTrace(std::move(begin)); !status.ok()) return Raise(status);
  Py_RETURN_NONE;
}

// end(): closes the session that begin() opened, and renders its files, unless the attacher does. In a child forked
// during the session, only closes the child's log.
PyObject* End(PyObject*, PyObject*) {
  const std::shared_ptr<ModuleSession> session = std::exchange(Session(), nullptr);
  if (session == nullptr) Py_RETURN_NONE;
  EndSession();
  const auto folder = std::move(session->folder);
  const auto lock = std::move(session->lock);
  if (getpid() != session->pid || folder == nullptr) Py_RETURN_NONE;
  absl::Status status;
  Py_BEGIN_ALLOW_THREADS;
  status = session->ending.Complete();
  Py_END_ALLOW_THREADS;
  if (!status.ok()) return Raise(status);
  if (const std::string error = Recorder::Get()->end_error(); !error.empty()) {
    PyErr_SetString(PyExc_FloatingPointError, error.c_str());
    return nullptr;
  }
  Py_RETURN_NONE;
}

// state(): who began the session that is on: None, "run" or "module".
PyObject* State(PyObject*, PyObject*) {
  if (Session() != nullptr) return PyUnicode_FromString("module");
  if (Recorder::Get() != nullptr && Recorder::SessionIsOn()) return PyUnicode_FromString("run");
  Py_RETURN_NONE;
}

// attacher_waits(): whether somebody still wants the trace that begin() opened for a torchtrace that has attached.
PyObject* AttacherWaits(PyObject*, PyObject*) {
  return PyBool_FromLong(Session() != nullptr && Session()->folder == nullptr && Waits(Session()->attacher));
}

// hold_signals(): held_signals.h has this and the next.
PyObject* Hold(PyObject*, PyObject*) {
  HoldSignals();
  Py_RETURN_NONE;
}

// release_signals(raised, frame)
PyObject* Release(PyObject*, PyObject* args) {
  PyObject *raised, *ours;
  if (!PyArg_ParseTuple(args, "O!O", &PyList_Type, &raised, &ours)) return nullptr;
  ReleaseSignals(raised, ours);
  Py_RETURN_NONE;
}

// paused(): whether recording is off, by set_paused() or --start-paused.
PyObject* IsPaused(PyObject*, PyObject*) {
  return PyBool_FromLong(Recorder::Get() != nullptr && Recorder::Get()->paused());
}

PyObject* SetPaused(PyObject*, PyObject* paused) {
  if (Recorder::Get() != nullptr) Recorder::Get()->SetPaused(PyObject_IsTrue(paused) == 1);
  Py_RETURN_NONE;
}

// set_tags(json)
PyObject* SetTags(PyObject*, PyObject* json) {
  Py_ssize_t bytes;
  const char* const text = PyUnicode_AsUTF8AndSize(json, &bytes);
  if (text == nullptr) return nullptr;
  if (Recorder::Get() != nullptr) Recorder::Get()->SetTags(std::string(text, static_cast<size_t>(bytes)));
  Py_RETURN_NONE;
}

// expand_output(name): the name with %p, %h, %r and %% expanded.
PyObject* ExpandOutput(PyObject*, PyObject* name) {
  const char* const text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return nullptr;
  const absl::StatusOr<std::string> expanded = ExpandOutputName(text);
  if (!expanded.ok()) return Raise(expanded.status());
  return PyUnicode_DecodeFSDefault(expanded->c_str());
}

// note(text): prints it and adds it to run.json.
PyObject* Note(PyObject*, PyObject* text) {
  const char* const utf8 = PyUnicode_AsUTF8(text);
  if (utf8 == nullptr) return nullptr;
  Recorder* const recorder = Recorder::Get();
  if (recorder != nullptr) recorder->NoteNotSeen(utf8);
  if (recorder == nullptr || !recorder->quiet()) SayLines(utf8);
  Py_RETURN_NONE;
}

// add_metadata(json)
PyObject* AddMetadata(PyObject*, PyObject* json) {
  const char* const utf8 = PyUnicode_AsUTF8(json);
  if (utf8 == nullptr) return nullptr;
  if (Recorder::Get() != nullptr) Recorder::Get()->AddMetadata(utf8);
  Py_RETURN_NONE;
}

// render(trace, folder, formats): like `torchtrace render TRACE -o FOLDER --formats FORMATS`, without run.json.
PyObject* RenderTrace(PyObject*, PyObject* args) {
  const char *path, *folder, *formats;
  if (!PyArg_ParseTuple(args, "sss", &path, &folder, &formats)) return nullptr;
  const absl::StatusOr<RenderFormats> parsed = RenderFormats::Parse(formats);
  if (!parsed.ok()) return Raise(parsed.status());
  RenderOptions options;
  options.formats = *parsed;
  options.render_limit = kNoRenderLimit;
  options.folder = folder;
  absl::Status status;
  Py_BEGIN_ALLOW_THREADS;
  absl::StatusOr<std::unique_ptr<Trace>> trace = OpenTrace(path);
  status = trace.ok() ? Render(trace->get(), options).status() : trace.status();
  Py_END_ALLOW_THREADS;
  if (!status.ok()) return Raise(status);
  Py_RETURN_NONE;
}

int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{1'000'000'000} * now.tv_sec + now.tv_nsec;
}

// check_timing_files(max_size, names): raises the errors of export_timing for these arguments.
PyObject* CheckTimingFiles(PyObject*, PyObject* args) {
  const char *max_size, *names;
  if (!PyArg_ParseTuple(args, "ss", &max_size, &names)) return nullptr;
  absl::Status status = ParseFileSize(max_size).status();
  if (status.ok()) status = FileNames::Parse(names, NowNs()).status();
  if (!status.ok()) return Raise(status);
  Py_RETURN_NONE;
}

// export_timing(traces, folder, format, max_size, names): like `torchtrace export timing TRACE... -o FOLDER --force`.
// Without max_size, one file.
PyObject* ExportTimingOf(PyObject*, PyObject* args) {
  PyObject* paths;
  const char *folder, *format, *max_size, *spec;
  std::vector<std::string> strings;
  if (!PyArg_ParseTuple(args, "Ossss", &paths, &folder, &format, &max_size, &spec) || !Strings(paths, &strings)) {
    return nullptr;
  }
  absl::StatusOr<uint64_t> max_bytes = UINT64_MAX;
  if (*max_size != '\0') max_bytes = ParseFileSize(max_size);
  if (!max_bytes.ok()) return Raise(max_bytes.status());
  const absl::StatusOr<FileNames> names = FileNames::Parse(spec, NowNs());
  if (!names.ok()) return Raise(names.status());
  std::vector<LabelledTrace> traces;
  for (const std::string& path : strings) traces.push_back({path, [path] { return OpenTrace(path); }});
  const bool csv = std::string_view(format) == "csv";
  const TimingOptions options = {.format = csv ? TimingFormat::kCsv : TimingFormat::kJson};
  const TimingFiles files = {
      folder, *names, {.suffix = csv ? ".csv" : ".json", .max_bytes = *max_bytes, .force = true}};
  absl::Status status;
  Py_BEGIN_ALLOW_THREADS;
  status = ExportTimingFiles(traces, {}, options, files).status();
  Py_END_ALLOW_THREADS;
  if (!status.ok()) return Raise(status);
  Py_RETURN_NONE;
}

// export_calls(format, trace, file): like `torchtrace export FORMAT TRACE -o FILE --force`, for a format of calls.
PyObject* ExportCallsTo(PyObject*, PyObject* args) {
  const char *format, *trace, *file;
  if (!PyArg_ParseTuple(args, "sss", &format, &trace, &file)) return nullptr;
  absl::Status status;
  Py_BEGIN_ALLOW_THREADS;
  status = [&]() -> absl::Status {
    const absl::StatusOr<const Exporter*> exporter = FindExporter(format);
    if (!exporter.ok()) return exporter.status();
    const auto* const calls = std::get_if<WritesCalls>(&(*exporter)->write);
    if (calls == nullptr) return absl::InvalidArgumentError(absl::StrCat(format, " holds no calls"));
    const absl::StatusOr<std::unique_ptr<OutputFile>> output = OutputFile::Create(file);
    if (!output.ok()) return output.status();
    OutputFileBuffer buffer(output->get());
    std::ostream stream(&buffer);
    const std::unique_ptr<CallSink> sink = calls->make(&stream, {});
    const std::string path = trace;
    absl::Status s = ExportTimeline({{path, [path] { return OpenTrace(path); }}}, {}, sink.get());
    if (s.ok()) s = sink->Finish();
    if (!(*output)->status().ok()) return (*output)->status();
    return s.ok() ? (*output)->Commit() : s;
  }();
  Py_END_ALLOW_THREADS;
  if (!status.ok()) return Raise(status);
  Py_RETURN_NONE;
}

PyObject* Text(std::string_view text) {
  return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
}

// Calls `visit` with a step's JSON and the contents of its tensors. False: an exception.
bool VisitStep(const Trace& trace, const FlowStep& step, PyObject* visit) {
  std::vector<std::string_view> pieces;
  const std::string json = DumpJson(FlowStepToJson(trace, step, &pieces));
  const std::string contents =
      absl::StrJoin(pieces, "", [](std::string* out, std::string_view piece) { *out += piece; });
  PyObject* const returned = PyObject_CallFunction(visit, "s#y#", json.data(), static_cast<Py_ssize_t>(json.size()),
                                                   contents.data(), static_cast<Py_ssize_t>(contents.size()));
  Py_XDECREF(returned);
  return returned != nullptr;
}

// read_flow(trace, level, calls, threads, visit, may_call): passes each step of a program (flow.h) to `visit`. Returns
// the summary as JSON. `calls` and `threads` may be empty.
PyObject* ReadFlowOf(PyObject*, PyObject* args) {
  const char *path, *calls;
  int level;
  PyObject *threads, *visit, *may_call;
  CallSelection selection;
  if (!PyArg_ParseTuple(args, "sisOOO", &path, &level, &calls, &threads, &visit, &may_call) ||
      !Strings(threads, &selection.threads)) {
    return nullptr;
  }
  selection.levels = {level};
  if (*calls != '\0') {
    absl::StatusOr<NumberSet> numbers = NumberSet::Parse(calls);
    if (!numbers.ok()) return Raise(numbers.status());
    selection.calls = *std::move(numbers);
  }
  const absl::StatusOr<std::unique_ptr<Trace>> trace = OpenTrace(path);
  if (!trace.ok()) return Raise(trace.status());
  bool raised = false;
  FlowOptions options;
  options.surroundings = true;
  options.may_call = [&](std::string_view api) {
    if (raised) return false;
    PyObject* const said = PyObject_CallFunction(may_call, "N", Text(api));
    raised = said == nullptr;
    const bool may = said == Py_True;
    Py_XDECREF(said);
    return may;
  };
  const absl::StatusOr<FlowSummary> summary = ReadFlow(
      trace->get(), selection,
      [&](const FlowStep& step) {
        raised = raised || !VisitStep(**trace, step, visit);
        return raised ? absl::CancelledError() : absl::OkStatus();
      },
      options);
  if (raised) return nullptr;
  if (!summary.ok()) return Raise(summary.status());
  return Text(DumpJson(FlowSummaryToJson(*summary)));
}

// call_rules(): what the package `_replay` knows about torch, as JSON.
PyObject* CallRulesText(PyObject*, PyObject*) { return Text(CallRules().dump()); }

// A dict of all levels' numbers by name.
PyObject* LevelNumbers() {
  PyObject* const numbers = PyDict_New();
  for (const Level& level : AllLevels()) {
    PyObject* const number = PyLong_FromLong(level.number);
    if (numbers != nullptr && number != nullptr) PyDict_SetItemString(numbers, level.name, number);
    Py_XDECREF(number);
  }
  return numbers;
}

// {"torch": (("torch",), [1]), ...}: the distributions that contain a dialect's package, and its default levels.
PyObject* Dialects() {
  PyObject* const dialects = PyDict_New();
  for (const DialectInfo& dialect : AllDialects()) {
    PyObject* const distributions = PyList_New(0);
    for (const char* const name : dialect.distributions) {
      PyObject* const text = PyUnicode_FromString(name);
      PyList_Append(distributions, text);
      Py_XDECREF(text);
    }
    PyObject* const levels = PyList_New(0);
    for (const int level : dialect.default_levels) {
      PyObject* const number = PyLong_FromLong(level);
      PyList_Append(levels, number);
      Py_XDECREF(number);
    }
    PyObject* const pair = Py_BuildValue("(NN)", distributions, levels);
    PyDict_SetItemString(dialects, dialect.name, pair);
    Py_XDECREF(pair);
  }
  return dialects;
}

PyMethodDef g_functions[] = {
    {"begin", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(Begin)), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"end", End, METH_NOARGS, nullptr},
    {"state", State, METH_NOARGS, nullptr},
    {"attacher_waits", AttacherWaits, METH_NOARGS, nullptr},
    {"hold_signals", Hold, METH_NOARGS, nullptr},
    {"release_signals", Release, METH_VARARGS, nullptr},
    {"paused", IsPaused, METH_NOARGS, nullptr},
    {"set_paused", SetPaused, METH_O, nullptr},
    {"set_tags", SetTags, METH_O, nullptr},
    {"expand_output", ExpandOutput, METH_O, nullptr},
    {"render", RenderTrace, METH_VARARGS, nullptr},
    {"check_timing_files", CheckTimingFiles, METH_VARARGS, nullptr},
    {"export_timing", ExportTimingOf, METH_VARARGS, nullptr},
    {"export_calls", ExportCallsTo, METH_VARARGS, nullptr},
    {"read_flow", ReadFlowOf, METH_VARARGS, nullptr},
    {"call_verb", CallVerbOf, METH_VARARGS, nullptr},
    {"rows_of", RowsOfJson, METH_O, nullptr},
    {"close_streams", CloseStreams, METH_NOARGS, nullptr},
    {"call_rules", CallRulesText, METH_NOARGS, nullptr},
    {"register_dialect", RegisterPythonDialect, METH_VARARGS, nullptr},
    {"record", RecordCall, METH_VARARGS, nullptr},
    {"note", Note, METH_O, nullptr},
    {"add_metadata", AddMetadata, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef g_module = {PyModuleDef_HEAD_INIT, "torchtrace._native", nullptr, -1, g_functions};

}  // namespace
}  // namespace torchtrace

PyMODINIT_FUNC PyInit__native() {
  torchtrace_runtime_register_dialects();
  PyObject* const module = PyModule_Create(&torchtrace::g_module);
  if (module == nullptr || !torchtrace::AddReaderTypes(module)) return nullptr;
  PyModule_AddStringConstant(module, "__version__", torchtrace::kVersion);
  PyModule_AddStringConstant(module, "PYTHON_VERSION", PY_VERSION);
  PyModule_AddIntConstant(module, "API_VERSION", torchtrace::kRuntimeApiVersion);
  PyModule_AddIntConstant(module, "DEFAULT_RENDER_LIMIT", static_cast<long>(torchtrace::kDefaultRenderLimit));
  PyObject* const levels = torchtrace::LevelNumbers();
  PyModule_AddObjectRef(module, "LEVELS", levels);
  Py_XDECREF(levels);
  PyObject* const dialects = torchtrace::Dialects();
  PyModule_AddObjectRef(module, "DIALECTS", dialects);
  Py_XDECREF(dialects);
  return module;
}
