// Records calls of an embedded Python through native entries into a log, in the forms in which CPython passes arguments
// and in those of an ArgumentForm.

#define PY_SSIZE_T_CLEAN
#include "dialects/python/setattr/recorded_calls.h"

#include <Python.h>
#include <stdlib.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dialects/python/describe/argument_form.h"
#include "dialects/python/describe/value_describer.h"
#include "dialects/python/setattr/native_entries.h"
#include "dialects/python/testing/embedded_python.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/forms/forms.h"
#include "serialize/log/log_trace.h"
#include "serialize/model/config.h"
#include "serialize/trace/trace.h"

namespace torchtrace::python_dialect {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

void DescribeValue(PyObject* value, ConfigBuilder* config) { ValueDescriber<NoFramework>(config).Value(value); }

// Formats the bytes of a call: "f(1, axis=2)".
std::string Text(std::string_view identity) {
  const absl::StatusOr<Config> config = ParseConfig(identity);
  if (!config.ok()) return std::string(config.status().message());
  std::vector<std::string> arguments;
  for (const Value& value : config->args) arguments.push_back(FormatValue(value));
  for (const auto& [name, value] : config->kwargs) arguments.push_back(absl::StrCat(name, "=", FormatValue(value)));
  std::string text = absl::StrCat(config->api, "(");
  for (size_t i = 0; i < arguments.size(); ++i) absl::StrAppend(&text, i == 0 ? "" : ", ", arguments[i]);
  return text + ")";
}

void StartPython() {
  static bool started = false;
  if (std::exchange(started, true)) return;
  if (Py_IsInitialized() == 0) Py_Initialize();
  ASSERT_EQ(Execute(R"(
import sys, types
acme = types.ModuleType("acme")
acme.__path__ = []
sys.modules["acme"] = acme
exec('''
import math, array
def function(a, b=2, *args, c=3, **kwargs):
    return a
def outer(x):
    try:
        failing(x)
    except KeyError:
        return function(x)
def failing(x):
    raise KeyError(x)
class Class:
    def __init__(self, x=0):
        self.x = x
    def method(self, x):
        return x
    def __getitem__(self, key):
        return key
    @property
    def prop(self):
        return self.x
    prop_at_c = 1
''', acme.__dict__)
)"),
            "");
}

class RecordedCallsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { StartPython(); }

  // What is recorded while `code` runs, with entries in the library.
  std::vector<std::string> Recorded(const std::string& code, bool outermost = false) {
    std::string pattern = ::testing::TempDir() + "/recorded_calls_XXXXXX";
    RecorderOptions options;
    options.log_folder = mkdtemp(pattern.data());
    options.recording.quiet = true;
    EXPECT_TRUE(Recorder::Start(std::move(options)).ok());
    static auto* const calls = new RecordedCalls<DescribeValue>;
    const auto entries = std::make_shared<NativeEntries>(
        calls, EntryOptions{.level = 0,
                            .names = {"acme.function", "acme.outer", "acme.failing", "acme.Class", "acme.Class.method",
                                      "acme.Class.__getitem__", "acme.math.hypot", "acme.array.array",
                                      "acme.array.array.itemsize.__get__", "acme.not_there"},
                            .outermost = outermost});
    EXPECT_TRUE(entries->Install().ok());
    error_ = Execute(code);
    entries->Uninstall();
    Recorder::Get()->Finish({.program_goes_on = true});
    const auto trace = OpenLogs(pattern).value();
    std::vector<std::string> recorded;
    EXPECT_TRUE(trace
                    ->Read([&](const CallRecord& call) {
                      if (call.kind == CallRecord::kEnter) {
                        recorded.push_back(std::string(2 * call.depth, ' ') + Text(trace->identity(call.config)));
                      } else if (call.kind == CallRecord::kRaise) {
                        recorded.push_back(std::string(2 * call.depth, ' ') + std::string(call.exception));
                      }
                      return absl::OkStatus();
                    })
                    .ok());
    metadata_ = *trace->processes()[0].metadata;
    return recorded;
  }

  std::string error_;
  nlohmann::json metadata_;
};

TEST_F(RecordedCallsTest, ArgumentsInEveryForm) {
  EXPECT_THAT(
      Recorded(R"(
acme.function(1)
acme.function(1, 'x', 2.5, c=None, d=[True])
acme.function(*(1, 2), **{'c': 3, '\udc80': 4})
acme.function(a=(1,), b={'k': {2, 1}})
c = acme.Class(x=5)
c.method(7); acme.Class.method(c, x=7)
c[1:2, ...]
acme.math.hypot(3, 4)
acme.array.array('d', [1])
)"),
      ElementsAre("acme.function(1)", R"(acme.function(1, "x", 2.5, c=None, d=list[True]))",
                  "acme.function(1, 2, c=3, \xed\xb2\x80=4)", R"(acme.function(a=tuple(1), b=dict{"k": set(1, 2)}))",
                  "acme.Class(x=5)", R"(acme.Class.method(object("acme.Class"), 7))",
                  R"(acme.Class.method(object("acme.Class"), x=7))",
                  R"(acme.Class.__getitem__(object("acme.Class"), tuple(slice(1, 2, None), Ellipsis)))",
                  "acme.math.hypot(3, 4)", R"(acme.array.array("d", list[1]))"));
  EXPECT_EQ(error_, "");
}

TEST_F(RecordedCallsTest, NestingAndExceptions) {
  EXPECT_THAT(Recorded("acme.outer(1)\nacme.failing(2)"),
              ElementsAre("acme.outer(1)", "  acme.failing(1)", "  KeyError", "  acme.function(1)", "acme.failing(2)",
                          "KeyError"));
  EXPECT_EQ(error_, "KeyError: 2");
  EXPECT_THAT(Recorded("acme.outer(1)\nacme.failing(2)", /*outermost=*/true),
              ElementsAre("acme.outer(1)", "acme.failing(2)", "KeyError"));
}

TEST_F(RecordedCallsTest, GettersAreCounted) {
  EXPECT_THAT(Recorded("a = acme.array.array('d')\na.itemsize; a.itemsize; a.itemsize"),
              ElementsAre(R"(acme.array.array("d"))"));
  EXPECT_EQ(metadata_["end"]["getters"], 3);
}

TEST_F(RecordedCallsTest, TheEndOfACallIsNotThatOfAnotherSessions) {
  EXPECT_THAT(Recorded("pass"), IsEmpty());
  EXPECT_THAT(Recorded("acme.function(9)"), ElementsAre("acme.function(9)"));
}

TEST_F(RecordedCallsTest, ManyKeywordsAndArguments) {
  const std::vector<std::string> recorded =
      Recorded("acme.function(*range(3000))\nacme.function(0, **{f'k{i}': i for i in range(3000)})");
  ASSERT_EQ(recorded.size(), 2u);
  EXPECT_TRUE(recorded[0].ends_with(", 2998, 2999)")) << recorded[0].substr(0, 100);
  EXPECT_TRUE(recorded[1].ends_with(", k2998=2998, k2999=2999)")) << recorded[1].substr(0, 100);
}

// ---- ArgumentForm ----

class ArgumentFormTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { StartPython(); }

  // What a function with these parameters passes on when it is called like this.
  static std::string HandedOn(const std::string& parameters, const std::string& form, const std::string& call) {
    EXPECT_EQ(Execute(absl::StrCat("def f(", parameters,
                                   "): pass\n"
                                   "def taken(*args, **kwargs): return args, kwargs\n"
                                   "args, kwargs = taken(",
                                   call, ")")),
              "");
    PyObject* const function = Evaluate("f");
    const std::unique_ptr<ArgumentForm> parsed = ArgumentForm::Parse(form, function);
    if (parsed == nullptr) return "no form";
    PyObject* const vector = Evaluate("[*args, *kwargs.values()]");
    PyObject* const names = Evaluate("tuple(kwargs) or None");
    CallArguments arguments;
    arguments.positional = PySequence_Fast_ITEMS(vector);
    arguments.names = names == Py_None ? nullptr : names;
    arguments.count = PyList_GET_SIZE(vector) - (names == Py_None ? 0 : PyTuple_GET_SIZE(names));
    ArgumentForm::Bound bound;
    if (!parsed->Bind(function, arguments, &bound)) return "not bound";
    if (!parsed->HandsOn(bound, [](PyTypeObject* type) { return type == &PyLong_Type; })) return "not handed on";
    ConfigBuilder config;
    parsed->DescribeCall(ConfigBuilder::EncodeHead(1, "f"), bound, &config,
                         [&](PyObject* value) { DescribeValue(value, &config); });
    const std::string_view bytes = config.Finish();
    return Text(bytes.substr(0, config.identity_bytes()));
  }
};

TEST_F(ArgumentFormTest, Values) {
  EXPECT_EQ(HandedOn("a, b=2, *, c=3", "a b c=c", "1"), "f(1, 2, c=3)");
  EXPECT_EQ(HandedOn("a, b=2, *, c=3", "a b c=c", "c=5, a=1"), "f(1, 2, c=5)");
  EXPECT_EQ(HandedOn("a, b=2", "b x=a", "1, b=4"), "f(4, x=1)");
  EXPECT_EQ(HandedOn("a, b=None", "a b=b|a", "1"), "f(1, b=1)");
  EXPECT_EQ(HandedOn("a, b=None", "a b=b|a", "1, 2"), "f(1, b=2)");
  EXPECT_EQ(HandedOn("a=7", "x=a", ""), "f(x=7)");
}

TEST_F(ArgumentFormTest, TheRest) {
  EXPECT_EQ(HandedOn("*args", "*args", "1, 2, 3"), "f(1, 2, 3)");
  EXPECT_EQ(HandedOn("*args", "*args", ""), "f()");
  EXPECT_EQ(HandedOn("a, *args, k=1", "a *args k=k", "0, 1, 2, k=5"), "f(0, 1, 2, k=5)");
}

TEST_F(ArgumentFormTest, OneTuple) {
  EXPECT_EQ(HandedOn("a", "(a)", "5"), "f(tuple(5))");
  EXPECT_EQ(HandedOn("a", "(a)", "[1, 2]"), "f(tuple(1, 2))");
  EXPECT_EQ(HandedOn("a", "(a)", "(1, 2)"), "f(tuple(1, 2))");
  EXPECT_EQ(HandedOn("a", "(a)", "{'x': 1, 'y': 2}"), "f(tuple(1, 2))");
  EXPECT_EQ(HandedOn("a", "(a)", "None"), "f(None)");
}

// As everywhere, omitted items are counted.
TEST_F(ArgumentFormTest, LongTuplesAreCut) {
  for (const char* const call : {"[*range(2000)]", "{i: i for i in range(2000)}"}) {
    const std::string text = HandedOn("args", "(args)", call);
    EXPECT_TRUE(text.starts_with("f(tuple(")) << text.substr(0, 200);
    EXPECT_THAT(text, testing::HasSubstr(" 1023, ...+976")) << text.substr(text.size() - 50);
  }
}

TEST_F(ArgumentFormTest, CallsThatFailAreNotBound) {
  for (const char* call : {"", "1, 2, 3", "1, b=2, c=3", "1, a=2", "b=1"}) {
    EXPECT_EQ(HandedOn("a, b=2", "a b", call), "not bound") << call;
  }
}

TEST_F(ArgumentFormTest, Conditions) {
  EXPECT_EQ(HandedOn("a, b", "a b ?a ?b", "1, 2"), "not handed on");
  EXPECT_EQ(HandedOn("a, b", "a b ?a ?b", "1, 'x'"), "f(1, \"x\")");
}

TEST_F(ArgumentFormTest, FormsOfOtherFunctions) {
  for (const auto& [parameters, form] : std::vector<std::pair<std::string, std::string>>{
           {"a", "b"}, {"a", "*args"}, {"a", "?b a"}, {"a", "a=c"}, {"a", "a|b"}, {"**kwargs", "kwargs"}}) {
    EXPECT_EQ(HandedOn(parameters, form, "1"), "no form") << form;
  }
  EXPECT_EQ(ArgumentForm::Parse("a", Evaluate("len")), nullptr);
}

TEST_F(ArgumentFormTest, OtherCodeIsAnotherFunction) {
  ASSERT_EQ(Execute("def g(a): pass\ndef h(b): pass"), "");
  PyObject* const function = Evaluate("g");
  const std::unique_ptr<ArgumentForm> form = ArgumentForm::Parse("a", function);
  ASSERT_NE(form, nullptr);
  EXPECT_TRUE(form->IsOf(function));
  ASSERT_EQ(Execute("g.__code__ = h.__code__"), "");
  EXPECT_FALSE(form->IsOf(function));
  ArgumentForm::Bound bound;
  PyObject* const one = Py_None;
  EXPECT_FALSE(form->Bind(function, {.positional = &one, .count = 1}, &bound));
}

}  // namespace

}  // namespace torchtrace::python_dialect
