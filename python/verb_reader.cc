// Python.h must come first.
#define PY_SSIZE_T_CLEAN
#include "python/verb_reader.h"

#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "python/verb_tables.h"
#include "serialize/base/monotonic_clock.h"
#include "serialize/export/arrow_sharing.h"
#include "serialize/export/verb_calls.h"

namespace torchtrace {
namespace {

// How long Ctrl-C may wait.
constexpr int64_t kSignalsEveryNs = 50'000'000;

using Words = std::vector<std::string>;

struct VerbCall {
  torchtrace_call_verb_function function = nullptr;
  Words words;
};

struct VerbResult {
  int exit_code = 0;
  std::vector<std::string> remarks;
  std::optional<std::pair<int, std::string>> error;  // an absl::StatusCode and a text
};

// What a verb says. Others add what it makes and when it stops.
class Listener {
 public:
  virtual ~Listener() = default;

  // Without the GIL.
  void Call(const VerbCall& call) {
    const torchtrace_verb_host host = {
        this,
        [](void* self, const char* bytes, size_t size) { Of(self)->Write({bytes, size}); },
        [](void* self, const char* text, size_t size) { Of(self)->result_.remarks.emplace_back(text, size); },
        [](void* self, int code, const char* text, size_t size) {
          Of(self)->result_.error = {code, std::string(text, size)};
        },
        [](void* self) { return Of(self)->Stops() ? 1 : 0; },
        [](void* self, ArrowArrayStream* rows) { return Of(self)->TakeRows(rows) ? 0 : 1; },
    };
    std::vector<const char*> words;
    for (const std::string& word : call.words) words.push_back(word.c_str());
    result_.exit_code = call.function(words.data(), words.size(), &host);
  }

  const VerbResult& result() const { return result_; }

 protected:
  virtual void Write(std::string_view bytes) = 0;
  virtual bool Stops() = 0;
  virtual bool TakeRows(ArrowArrayStream* rows) = 0;

 private:
  static Listener* Of(void* self) { return static_cast<Listener*>(self); }

  VerbResult result_;
};

// Asks Python now and then whether a signal's handler raised. Python calls handlers in its main thread only.
class SignalWatch {
 public:
  // Takes the GIL. True: an exception is set.
  bool Raised() {
    const int64_t now_ns = MonotonicNowNs();
    if (raised_ || now_ns - asked_ns_ < kSignalsEveryNs) return raised_;
    asked_ns_ = now_ns;
    const PyGILState_STATE gil = PyGILState_Ensure();
    raised_ = PyErr_CheckSignals() != 0;
    PyGILState_Release(gil);
    return raised_;
  }

 private:
  int64_t asked_ns_ = MonotonicNowNs();
  bool raised_ = false;
};

class ReportListener final : public Listener {
 public:
  std::string text;

 private:
  void Write(std::string_view bytes) override { text += bytes; }
  bool Stops() override { return signals_.Raised(); }
  bool TakeRows(ArrowArrayStream* rows) override {
    rows->release(rows);
    return false;
  }

  SignalWatch signals_;
};

using TablePtr = std::shared_ptr<const VerbTable>;

// Rows that a thread reads, a few batches ahead of who takes them.
class RowStream final : public Listener {
 public:
  explicit RowStream(VerbCall call) : pid_(getpid()) {
    thread_ = std::thread([this, call = std::move(call)] {
      Call(call);
      const std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
      changed_.notify_all();
    });
    const std::lock_guard<std::mutex> lock(g_mutex);
    g_streams.insert(this);
  }

  // Without the GIL: the thread needs no Python, but Close waits.
  ~RowStream() override {
    Close();
    const std::lock_guard<std::mutex> lock(g_mutex);
    g_streams.erase(this);
  }

  static void CloseAll() {
    const std::lock_guard<std::mutex> lock(g_mutex);
    for (RowStream* const stream : g_streams) stream->Close();
  }

  void Close() {
    if (pid_ != getpid()) {  // a forked child has no such thread
      if (thread_.joinable()) thread_.detach();
      return;
    }
    const std::lock_guard<std::mutex> closing(closing_);
    if (!thread_.joinable()) return;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stops_ = true;
      changed_.notify_all();
    }
    thread_.join();
    batches_.clear();
  }

  enum State : uint8_t { kBatch, kEnd, kWait, kElsewhere };
  // Waits a little. kElsewhere: the process that reads is another one, of which this is a fork.
  State Take(TablePtr* batch) {
    if (pid_ != getpid()) return kElsewhere;
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::nanoseconds(kSignalsEveryNs), [this] { return ended_ || !batches_.empty(); });
    if (batches_.empty()) return ended_ ? kEnd : kWait;
    *batch = std::move(batches_.front());
    batches_.pop_front();
    changed_.notify_all();
    return kBatch;
  }

 private:
  static constexpr size_t kAhead = 2;

  void Write(std::string_view /*bytes*/) override {}
  bool Stops() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return stops_;
  }
  bool TakeRows(ArrowArrayStream* rows) override {
    for (bool more = true; more;) {
      const auto table = std::make_shared<VerbTable>();
      rows->get_schema(rows, &table->schema);
      rows->get_next(rows, &table->rows);
      more = table->rows.release != nullptr;
      if (!more && told_schema_) break;
      if (!more) NoRows(table.get());
      told_schema_ = true;
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return stops_ || batches_.size() < kAhead; });
      if (stops_) break;
      batches_.push_back(table);
      changed_.notify_all();
    }
    rows->release(rows);
    return !Stops();
  }

  // The first batch of all, which has the schema.
  static void NoRows(VerbTable* table) {
    static const void* const no_buffers[3] = {};
    const auto columns = std::make_shared<std::vector<ArrowArray>>(static_cast<size_t>(table->schema.n_children));
    ArrowArray dictionary = {};
    dictionary.n_buffers = 3;
    dictionary.buffers = const_cast<const void**>(no_buffers);
    std::vector<ArrowArray*> children;
    for (size_t i = 0; i < columns->size(); ++i) {
      ArrowArray& column = (*columns)[i];
      column.n_buffers = 2;
      column.buffers = const_cast<const void**>(no_buffers);
      if (table->schema.children[i]->dictionary != nullptr) column.dictionary = &dictionary;
      children.push_back(&column);
    }
    ArrowArray root = {};
    root.n_buffers = 1;
    root.buffers = const_cast<const void**>(no_buffers);
    root.n_children = static_cast<int64_t>(children.size());
    root.children = children.data();
    ShareArray(root, columns, &table->rows);
  }

  static inline std::mutex g_mutex;
  static inline std::set<RowStream*> g_streams;

  const pid_t pid_;
  std::mutex closing_;  // held while it waits for the thread
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<TablePtr> batches_;
  bool stops_ = false;
  bool ended_ = false;
  bool told_schema_ = false;  // of the reading thread
  std::thread thread_;
};

// Where an Arrow stream's batches come from: a table, or what is left of a RowStream.
struct BatchSource {
  TablePtr schema;
  std::deque<TablePtr> batches;       // first
  std::shared_ptr<RowStream> stream;  // then; may be null
  std::string error;
};

constexpr char kElsewhereText[] = "a process was forked while it took rows of a trace: it has to begin again";

bool HasGil() { return PyGILState_Check() == 1; }

// The next batch; null at the end and after an error, which the source then tells. With the GIL or without it.
TablePtr NextBatch(BatchSource* source) {
  if (!source->batches.empty()) {
    TablePtr next = std::move(source->batches.front());
    source->batches.pop_front();
    return next;
  }
  if (source->stream == nullptr) return nullptr;
  PyThreadState* const thread = HasGil() ? PyEval_SaveThread() : nullptr;
  SignalWatch signals;
  TablePtr next;
  RowStream::State state;
  while ((state = source->stream->Take(&next)) == RowStream::kWait) {
    if (signals.Raised()) break;
  }
  if (state == RowStream::kElsewhere) source->error = kElsewhereText;
  if (state == RowStream::kEnd) {
    const VerbResult& result = source->stream->result();
    if (result.error.has_value()) {
      source->error = result.error->second;
    } else if (result.exit_code < 0) {
      source->error = "reading ended early";
    }
  }
  if (thread != nullptr) PyEval_RestoreThread(thread);
  if (state == RowStream::kWait) {
    // Whoever pulls the stream has an error of its own. The signal's handler comes again when it has returned.
    source->error = "interrupted";
    const PyGILState_STATE gil = PyGILState_Ensure();
    PyErr_Clear();
    PyErr_SetInterrupt();
    PyGILState_Release(gil);
  }
  return next;
}

BatchSource* SourceOf(ArrowArrayStream* stream) { return static_cast<BatchSource*>(stream->private_data); }

void MakeArrowStream(std::unique_ptr<BatchSource> source, ArrowArrayStream* out) {
  out->get_schema = [](ArrowArrayStream* stream, ArrowSchema* schema) {
    CopySchema(SourceOf(stream)->schema->schema, schema);
    return 0;
  };
  out->get_next = [](ArrowArrayStream* stream, ArrowArray* batch) {
    *batch = {};
    const TablePtr next = NextBatch(SourceOf(stream));
    if (next != nullptr) ShareArray(next->rows, next, batch);
    return SourceOf(stream)->error.empty() ? 0 : EIO;
  };
  out->get_last_error = [](ArrowArrayStream* stream) -> const char* {
    const std::string& error = SourceOf(stream)->error;
    return error.empty() ? nullptr : error.c_str();
  };
  out->release = [](ArrowArrayStream* stream) {
    delete SourceOf(stream);
    stream->release = nullptr;
  };
  out->private_data = source.release();
}

// A capsule with a structure of Arrow's, which it releases unless somebody took its contents.
template <typename Structure>
PyObject* Capsule(Structure* structure, const char* name) {
  PyObject* const capsule = PyCapsule_New(structure, name, [](PyObject* dying) {
    auto* const held = static_cast<Structure*>(PyCapsule_GetPointer(dying, PyCapsule_GetName(dying)));
    if (held->release != nullptr) held->release(held);
    delete held;
  });
  if (capsule == nullptr) {
    structure->release(structure);
    delete structure;
  }
  return capsule;
}

PyObject* SchemaCapsule(const VerbTable& table) {
  auto* const schema = new ArrowSchema;
  CopySchema(table.schema, schema);
  return Capsule(schema, "arrow_schema");
}

PyObject* StreamCapsule(std::unique_ptr<BatchSource> source) {
  auto* const stream = new ArrowArrayStream;
  MakeArrowStream(std::move(source), stream);
  return Capsule(stream, "arrow_array_stream");
}

// Rows.

struct RowsObject {
  PyObject_HEAD TablePtr* table;
  // By column: Python's objects for the texts of its dictionary, as they are first needed.
  std::vector<std::vector<PyObject*>>* texts;
};
PyTypeObject* g_rows_type = nullptr;

PyObject* NewRows(TablePtr table) {
  auto* const rows = PyObject_New(RowsObject, g_rows_type);
  if (rows == nullptr) return nullptr;
  rows->texts = new std::vector<std::vector<PyObject*>>(static_cast<size_t>(table->rows.n_children));
  rows->table = new TablePtr(std::move(table));
  return reinterpret_cast<PyObject*>(rows);
}

RowsObject* RowsOf(PyObject* self) { return reinterpret_cast<RowsObject*>(self); }
const VerbTable& TableOf(PyObject* self) { return **RowsOf(self)->table; }

void DeallocRows(PyObject* self) {
  for (const std::vector<PyObject*>& texts : *RowsOf(self)->texts) {
    for (PyObject* const text : texts) Py_XDECREF(text);
  }
  delete RowsOf(self)->texts;
  delete RowsOf(self)->table;
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

Py_ssize_t RowCount(PyObject* self) { return static_cast<Py_ssize_t>(TableOf(self).rows.length); }

PyObject* TextObject(std::string_view text) {
  return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
}

bool IsJson(const ArrowSchema& field) { return field.metadata != nullptr; }

// Text `i` of an array with offsets of this type, or what of_json makes of it.
template <typename Offset>
PyObject* TextAt(const ArrowArray& array, int64_t i, PyObject* of_json) {
  const auto* const offsets = static_cast<const Offset*>(array.buffers[1]);
  const auto* const bytes = static_cast<const char*>(array.buffers[2]);
  PyObject* const text = TextObject({bytes + offsets[i], static_cast<size_t>(offsets[i + 1] - offsets[i])});
  if (text == nullptr || of_json == nullptr) return text;
  PyObject* const made = PyObject_CallOneArg(of_json, text);
  Py_DECREF(text);
  return made;
}

// A new reference to the value of a row that is not null.
PyObject* ValueAt(const ArrowArray& column, const ArrowSchema& field, int64_t row, std::vector<PyObject*>* texts,
                  PyObject* of_json) {
  switch (*field.format) {
    case 'l':
      return PyLong_FromLongLong(static_cast<const int64_t*>(column.buffers[1])[row]);
    case 'g':
      return PyFloat_FromDouble(static_cast<const double*>(column.buffers[1])[row]);
    case 'b':
      return PyBool_FromLong(static_cast<const uint8_t*>(column.buffers[1])[row / 8] >> row % 8 & 1);
    case 'i': {
      const auto index = static_cast<size_t>(static_cast<const int32_t*>(column.buffers[1])[row]);
      if (texts->empty()) texts->resize(static_cast<size_t>(column.dictionary->length));
      PyObject*& text = (*texts)[index];
      if (text == nullptr) text = TextAt<int32_t>(*column.dictionary, static_cast<int64_t>(index), of_json);
      Py_XINCREF(text);
      return text;
    }
    default:
      return TextAt<int64_t>(column, row, of_json);
  }
}

bool IsValid(const ArrowArray& column, int64_t row) {
  const auto* const valid = static_cast<const uint8_t*>(column.buffers[0]);
  return valid == nullptr || (valid[row / 8] >> row % 8 & 1) != 0;
}

PyObject* ColumnValues(const ArrowArray& column, const ArrowSchema& field, int64_t start, int64_t stop,
                       std::vector<PyObject*>* texts, PyObject* of_json) {
  PyObject* const values = PyList_New(static_cast<Py_ssize_t>(stop - start));
  if (values == nullptr) return nullptr;
  for (int64_t row = start; row < stop; ++row) {
    PyObject* const value = IsValid(column, row) ? ValueAt(column, field, row, texts, IsJson(field) ? of_json : nullptr)
                                                 : Py_NewRef(Py_None);
    if (value == nullptr) {
      Py_DECREF(values);
      return nullptr;
    }
    PyList_SET_ITEM(values, static_cast<Py_ssize_t>(row - start), value);
  }
  return values;
}

PyObject* ColumnsOf(PyObject* self, PyObject* args) {
  long long start, stop;
  PyObject* of_json;
  if (!PyArg_ParseTuple(args, "LLO", &start, &stop, &of_json)) return nullptr;
  if (of_json == Py_None) of_json = nullptr;
  const VerbTable& table = TableOf(self);
  if (start < 0 || stop < start || stop > table.rows.length) {
    PyErr_SetString(PyExc_IndexError, "no such rows");
    return nullptr;
  }
  PyObject* const columns = PyList_New(static_cast<Py_ssize_t>(table.rows.n_children));
  for (int64_t i = 0; columns != nullptr && i < table.rows.n_children; ++i) {
    PyObject* const values = ColumnValues(*table.rows.children[i], *table.schema.children[i], start, stop,
                                          &(*RowsOf(self)->texts)[static_cast<size_t>(i)], of_json);
    if (values == nullptr) {
      Py_DECREF(columns);
      return nullptr;
    }
    PyList_SET_ITEM(columns, static_cast<Py_ssize_t>(i), values);
  }
  return columns;
}

const char* KindOf(const ArrowSchema& field) {
  switch (*field.format) {
    case 'l':
      return "int";
    case 'g':
      return "float";
    case 'b':
      return "bool";
    default:
      return IsJson(field) ? "json" : "str";
  }
}

template <typename TextOf>
PyObject* TextsOfFields(PyObject* self, const TextOf& text_of) {
  const ArrowSchema& schema = TableOf(self).schema;
  PyObject* const texts = PyTuple_New(static_cast<Py_ssize_t>(schema.n_children));
  for (int64_t i = 0; texts != nullptr && i < schema.n_children; ++i) {
    PyObject* const text = TextObject(text_of(*schema.children[i]));
    if (text == nullptr) {
      Py_DECREF(texts);
      return nullptr;
    }
    PyTuple_SET_ITEM(texts, static_cast<Py_ssize_t>(i), text);
  }
  return texts;
}

PyObject* NamesOf(PyObject* self, void*) {
  return TextsOfFields(self, [](const ArrowSchema& field) { return field.name; });
}
PyObject* KindsOf(PyObject* self, void*) { return TextsOfFields(self, KindOf); }

PyObject* RowsToSchema(PyObject* self, PyObject*) { return SchemaCapsule(TableOf(self)); }

// The requested schema, which an Arrow producer may ignore, is.
PyObject* RowsToArray(PyObject* self, PyObject*, PyObject*) {
  PyObject* const schema = SchemaCapsule(TableOf(self));
  if (schema == nullptr) return nullptr;
  auto* const array = new ArrowArray;
  ShareArray(TableOf(self).rows, *RowsOf(self)->table, array);
  PyObject* const rows = Capsule(array, "arrow_array");
  if (rows != nullptr) return Py_BuildValue("(NN)", schema, rows);
  Py_DECREF(schema);
  return nullptr;
}

PyObject* RowsToStream(PyObject* self, PyObject*, PyObject*) {
  auto source = std::make_unique<BatchSource>();
  source->schema = *RowsOf(self)->table;
  source->batches.push_back(source->schema);
  return StreamCapsule(std::move(source));
}

PyCFunction WithKeywords(PyCFunctionWithKeywords function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function));
}

PyMethodDef g_rows_methods[] = {
    {"columns", ColumnsOf, METH_VARARGS, nullptr},
    {"__arrow_c_schema__", RowsToSchema, METH_NOARGS, nullptr},
    {"__arrow_c_array__", WithKeywords(RowsToArray), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"__arrow_c_stream__", WithKeywords(RowsToStream), METH_VARARGS | METH_KEYWORDS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef g_rows_members[] = {
    {"names", NamesOf, nullptr, nullptr, nullptr},
    {"kinds", KindsOf, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot g_rows_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(DeallocRows)},
    {Py_sq_length, reinterpret_cast<void*>(RowCount)},
    {Py_tp_methods, g_rows_methods},
    {Py_tp_getset, g_rows_members},
    {0, nullptr},
};
PyType_Spec g_rows_spec = {"torchtrace._native.Rows", sizeof(RowsObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, g_rows_slots};

// What both kinds of calls need.

// The words are bytes, as file names may be.
bool ReadVerbCall(const char* library, PyObject* words, VerbCall* call) {
  PyObject* const fast = PySequence_Fast(words, "a list of bytes is expected");
  if (fast == nullptr) return false;
  bool good = true;
  for (Py_ssize_t i = 0; good && i < PySequence_Fast_GET_SIZE(fast); ++i) {
    char* bytes;
    Py_ssize_t size;
    good = PyBytes_AsStringAndSize(PySequence_Fast_GET_ITEM(fast, i), &bytes, &size) == 0;
    if (good) call->words.emplace_back(bytes, static_cast<size_t>(size));
  }
  Py_DECREF(fast);
  if (!good) return false;
  // The same handle each time; it is never closed.
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  void* const function = handle == nullptr ? nullptr : dlsym(handle, "torchtrace_call_verb");
  if (function == nullptr) {
    PyErr_Format(PyExc_ImportError, "cannot load what reads traces: %s", dlerror());
    return false;
  }
  call->function = reinterpret_cast<torchtrace_call_verb_function>(function);
  return true;
}

PyObject* RemarksOf(const VerbResult& result) {
  PyObject* const list = PyList_New(0);
  for (const std::string& remark : result.remarks) {
    PyObject* const text = TextObject(remark);
    if (list != nullptr && text != nullptr) PyList_Append(list, text);
    Py_XDECREF(text);
  }
  return list;
}

PyObject* ErrorOf(const VerbResult& result) {
  if (!result.error.has_value()) Py_RETURN_NONE;
  return Py_BuildValue("(iN)", result.error->first, TextObject(result.error->second));
}

// Stream.

struct StreamObject {
  PyObject_HEAD std::shared_ptr<RowStream>* stream;
  TablePtr* schema;  // null before the first batch
};

StreamObject* StreamOf(PyObject* self) { return reinterpret_cast<StreamObject*>(self); }

PyObject* NewStream(PyTypeObject* type, PyObject* args, PyObject*) {
  const char* library;
  PyObject* words;
  VerbCall call;
  if (!PyArg_ParseTuple(args, "sO", &library, &words) || !ReadVerbCall(library, words, &call)) return nullptr;
  auto* const object = reinterpret_cast<StreamObject*>(type->tp_alloc(type, 0));
  if (object == nullptr) return nullptr;
  object->schema = new TablePtr();
  try {
    object->stream = new std::shared_ptr<RowStream>(std::make_shared<RowStream>(std::move(call)));
  } catch (const std::system_error& error) {
    object->stream = new std::shared_ptr<RowStream>();
    Py_DECREF(object);
    PyErr_Format(PyExc_OSError, "cannot start a thread that reads: %s", error.what());
    return nullptr;
  }
  return reinterpret_cast<PyObject*>(object);
}

void DeallocStream(PyObject* self) {
  std::shared_ptr<RowStream>* const stream = StreamOf(self)->stream;
  Py_BEGIN_ALLOW_THREADS;
  delete stream;
  Py_END_ALLOW_THREADS;
  delete StreamOf(self)->schema;
  PyTypeObject* const type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

// Returns null with an exception set if a signal's handler raised, else whether it is not the end.
PyObject* TakeFrom(PyObject* self, TablePtr* batch) {
  RowStream* const stream = StreamOf(self)->stream->get();
  for (;;) {
    RowStream::State state;
    Py_BEGIN_ALLOW_THREADS;
    state = stream->Take(batch);
    Py_END_ALLOW_THREADS;
    if (PyErr_CheckSignals() != 0) return nullptr;
    if (state == RowStream::kWait) continue;
    if (state == RowStream::kElsewhere) {
      PyErr_SetString(PyExc_RuntimeError, kElsewhereText);
      return nullptr;
    }
    if (state == RowStream::kBatch && *StreamOf(self)->schema == nullptr) *StreamOf(self)->schema = *batch;
    return state == RowStream::kBatch ? Py_True : Py_False;
  }
}

PyObject* StreamNext(PyObject* self, PyObject*) {
  TablePtr batch;
  PyObject* const taken = TakeFrom(self, &batch);
  if (taken == nullptr) return nullptr;
  if (taken == Py_False) Py_RETURN_NONE;
  return NewRows(std::move(batch));
}

PyObject* StreamClose(PyObject* self, PyObject*) {
  Py_BEGIN_ALLOW_THREADS;
  (*StreamOf(self)->stream)->Close();
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

PyObject* StreamToStream(PyObject* self, PyObject*, PyObject*) {
  auto source = std::make_unique<BatchSource>();
  if (*StreamOf(self)->schema == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "take the first batch, which has the schema, before");
    return nullptr;
  }
  source->schema = *StreamOf(self)->schema;
  source->stream = *StreamOf(self)->stream;
  return StreamCapsule(std::move(source));
}

PyMethodDef g_stream_methods[] = {
    {"next", StreamNext, METH_NOARGS, nullptr},
    {"close", StreamClose, METH_NOARGS, nullptr},
    {"__arrow_c_stream__", WithKeywords(StreamToStream), METH_VARARGS | METH_KEYWORDS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
const VerbResult& ResultOf(PyObject* self) { return (*StreamOf(self)->stream)->result(); }
PyGetSetDef g_stream_members[] = {
    {"exit_code", [](PyObject* self, void*) { return PyLong_FromLong(ResultOf(self).exit_code); }, nullptr, nullptr,
     nullptr},
    {"remarks", [](PyObject* self, void*) { return RemarksOf(ResultOf(self)); }, nullptr, nullptr, nullptr},
    {"error", [](PyObject* self, void*) { return ErrorOf(ResultOf(self)); }, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot g_stream_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(NewStream)},
    {Py_tp_dealloc, reinterpret_cast<void*>(DeallocStream)},
    {Py_tp_methods, g_stream_methods},
    {Py_tp_getset, g_stream_members},
    {0, nullptr},
};
PyType_Spec g_stream_spec = {"torchtrace._native.Stream", sizeof(StreamObject), 0, Py_TPFLAGS_DEFAULT, g_stream_slots};

PyObject* ReportObject(const VerbReport& report) {
  PyObject* const tables = PyDict_New();
  for (const auto& [name, table] : report.tables) {
    PyObject* const rows = NewRows(table);
    if (rows == nullptr || PyDict_SetItemString(tables, name.c_str(), rows) != 0) {
      Py_XDECREF(rows);
      Py_DECREF(tables);
      return nullptr;
    }
    Py_DECREF(rows);
  }
  return Py_BuildValue("(NN)", tables, TextObject(report.rest));
}

}  // namespace

PyObject* CallVerbOf(PyObject*, PyObject* args) {
  const char* library;
  PyObject *words, *not_tables;
  VerbCall call;
  std::vector<std::string> kept;
  if (!PyArg_ParseTuple(args, "sOO", &library, &words, &not_tables) || !ReadVerbCall(library, words, &call)) {
    return nullptr;
  }
  const bool has_tables = PyTuple_Check(not_tables);
  for (Py_ssize_t i = 0; has_tables && i < PyTuple_GET_SIZE(not_tables); ++i) {
    const char* const name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(not_tables, i));
    if (name == nullptr) return nullptr;
    kept.emplace_back(name);
  }
  ReportListener listener;
  absl::StatusOr<VerbReport> report = absl::UnknownError("");
  Py_BEGIN_ALLOW_THREADS;
  listener.Call(call);
  if (!has_tables) {
    report = VerbReport{{}, std::move(listener.text)};
  } else if (!listener.text.empty()) {
    report = ParseReport(listener.text, kept);
  }
  Py_END_ALLOW_THREADS;
  const VerbResult& result = listener.result();
  if (result.exit_code == TORCHTRACE_VERB_STOPPED) return nullptr;  // the exception is set
  if (result.exit_code == TORCHTRACE_VERB_WITHOUT_MEMORY) return PyErr_NoMemory();
  if (!result.error.has_value() && !listener.text.empty() && !report.ok()) {
    PyErr_SetString(PyExc_RuntimeError, std::string(report.status().message()).c_str());
    return nullptr;
  }
  PyObject* const tables = report.ok() ? ReportObject(*report) : Py_NewRef(Py_None);
  if (tables == nullptr) return nullptr;
  return Py_BuildValue("(iNNN)", result.exit_code, tables, RemarksOf(result), ErrorOf(result));
}

PyObject* RowsOfJson(PyObject*, PyObject* text) {
  Py_ssize_t size;
  const char* const json = PyUnicode_AsUTF8AndSize(text, &size);
  if (json == nullptr) return nullptr;
  absl::StatusOr<VerbReport> report = ParseReport({json, static_cast<size_t>(size)}, {});
  if (report.ok()) return NewRows(report->tables[""]);
  PyErr_SetString(PyExc_ValueError, std::string(report.status().message()).c_str());
  return nullptr;
}

PyObject* CloseStreams(PyObject*, PyObject*) {
  Py_BEGIN_ALLOW_THREADS;
  RowStream::CloseAll();
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

bool AddReaderTypes(PyObject* module) {
  g_rows_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&g_rows_spec));
  PyObject* const stream = PyType_FromSpec(&g_stream_spec);
  const bool added = g_rows_type != nullptr && stream != nullptr &&
                     PyModule_AddObjectRef(module, "Rows", reinterpret_cast<PyObject*>(g_rows_type)) == 0 &&
                     PyModule_AddObjectRef(module, "Stream", stream) == 0;
  Py_XDECREF(stream);
  return added;
}

}  // namespace torchtrace
