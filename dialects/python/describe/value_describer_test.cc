// Values of an embedded Python are described without creating Python objects, without calling Python code and without
// changing the values.

#define PY_SSIZE_T_CLEAN
#include "dialects/python/describe/value_describer.h"

#include <Python.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dialects/python/testing/embedded_python.h"
#include "gtest/gtest.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"

namespace torchtrace {
namespace {

// Counts the allocations of Python's allocators while it exists.
class AllocationCounter {
 public:
  AllocationCounter() {
    for (size_t i = 0; i < kDomains.size(); ++i) {
      PyMem_GetAllocator(kDomains[i], &originals_[i]);
      PyMemAllocatorEx counting = {&originals_[i], Malloc, Calloc, Realloc, Free};
      PyMem_SetAllocator(kDomains[i], &counting);
    }
    count_ = 0;
  }
  ~AllocationCounter() {
    for (size_t i = 0; i < kDomains.size(); ++i) PyMem_SetAllocator(kDomains[i], &originals_[i]);
  }
  AllocationCounter(const AllocationCounter&) = delete;
  static int count() { return count_; }

 private:
  static PyMemAllocatorEx* Original(void* context) { return static_cast<PyMemAllocatorEx*>(context); }
  static void* Malloc(void* context, size_t bytes) {
    ++count_;
    return Original(context)->malloc(Original(context)->ctx, bytes);
  }
  static void* Calloc(void* context, size_t count, size_t bytes) {
    ++count_;
    return Original(context)->calloc(Original(context)->ctx, count, bytes);
  }
  static void* Realloc(void* context, void* memory, size_t bytes) {
    ++count_;
    return Original(context)->realloc(Original(context)->ctx, memory, bytes);
  }
  static void Free(void* context, void* memory) { Original(context)->free(Original(context)->ctx, memory); }

  static constexpr std::array<PyMemAllocatorDomain, 2> kDomains = {PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ};
  static inline int count_ = 0;
  std::array<PyMemAllocatorEx, 2> originals_;
};

void RunAll(const std::string& code) { ASSERT_EQ(Execute(code), "") << code; }

std::string EvaluateText(const std::string& expression) {
  PyObject* const value = Evaluate(expression);
  std::string text = TextOf(value);
  Py_DECREF(value);
  return text;
}

std::string Describe(PyObject* value) {
  ConfigBuilder config;
  config.Begin(ConfigBuilder::EncodeHead(0, "f"));
  config.Positional(1);
  ValueDescriber<NoFramework>(&config).Value(value);
  config.Keywords(0);
  const absl::StatusOr<Config> parsed = ParseConfig(config.bytes()->view());
  return parsed.ok() ? FormatValue(parsed->args[0]) : std::string(parsed.status().message());
}

// The description of an expression's value; also checks that describing is passive.
std::string Describe(const std::string& expression) {
  PyObject* const value = Evaluate(expression);
  RunAll("gc.collect()");  // also empties the lists of free objects
  const Py_ssize_t references = Py_REFCNT(value);
  PyErr_SetString(PyExc_KeyError, "the program's own");
  int allocations;
  std::string text;
  {
    const AllocationCounter counter;
    text = Describe(value);
    allocations = counter.count();
  }
  EXPECT_EQ(allocations, 0) << expression;
  EXPECT_NE(PyErr_ExceptionMatches(PyExc_KeyError), 0) << expression;
  PyErr_Clear();
  EXPECT_EQ(Py_REFCNT(value), references) << expression;
  Py_DECREF(value);
  return text;
}

class ValueDescriberTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (Py_IsInitialized() != 0) return;
    Py_Initialize();
    RunAll("import gc, sys\nsys.set_int_max_str_digits(0)\ncalls = []\n");
  }
};

TEST_F(ValueDescriberTest, EveryKind) {
  RunAll(R"(
import functools
def decorate(function):
    def inner(): pass
    return functools.wraps(function)(inner)
class Own:
    def method(self): pass
    @staticmethod
    @decorate
    def decorated(): pass
class Items(list): pass
@functools.wraps(len)
def wrapped(): pass
)");
  for (const auto& [expression, text] : std::vector<std::pair<std::string, std::string>>{
           {"None", "None"},
           {"True", "True"},
           {"-3", "-3"},
           {"0.5", "0.5"},
           {"1j", "complex(0.0, 1.0)"},
           {"'text'", R"("text")"},
           {"b'ab'", R"(b"ab")"},
           {"(1, [2, 'a'])", R"(tuple(1, list[2, "a"]))"},
           {"Items([1])", "list[1]"},
           {"{'a': {3, 1, 2}}", R"(dict{"a": set(1, 2, 3)})"},
           {"frozenset([1])", "frozenset(1)"},
           {"slice(None, 2)", "slice(None, 2, None)"},
           {"range(2**70, 10, -3)", "range(1180591620717411303424, 10, -3)"},
           {"...", "Ellipsis"},
           {"Own", R"(type("__main__.Own"))"},
           {"Own()", R"(object("__main__.Own"))"},
           {"Own().method", R"(function("__main__.Own.method"))"},
           {"[].append", R"(function("list.append"))"},
           {"wrapped", R"(function("__main__.wrapped"))"},
           {"functools.wraps(len)(lambda: 0)", R"(function("__main__.<lambda>"))"},
           {"Own.decorated", R"(function("__main__.Own.decorated"))"},
           {"len", R"(function("len"))"},
           {"str.join", R"(function("str.join"))"},
       }) {
    EXPECT_EQ(Describe(expression), text);
  }
}

TEST_F(ValueDescriberTest, Strings) {
  EXPECT_EQ(Describe(R"('a\udc80b')"), R"("a\udc80b")");
  EXPECT_EQ(Describe(R"('\ude00\ud83d')"), R"("\ude00\ud83d")");
  EXPECT_EQ(Describe(R"('\xe9\u20ac\U0001f600')"), "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
  // Cut before the character that would not fit.
  EXPECT_TRUE(Describe(R"('a' + '\xe9' * 600)").ends_with("\xc3\xa9\"...+178"));
  EXPECT_TRUE(Describe(R"('\u20ac' * 500)").ends_with("\xe2\x82\xac\"...+477"));
  EXPECT_TRUE(Describe(R"('\U0001f600' * 500)").ends_with("\xf0\x9f\x98\x80\"...+976"));
  EXPECT_TRUE(Describe(R"('\udc80' * 500)").ends_with("...+477"));
  EXPECT_TRUE(Describe("'x' * 5000").ends_with("x\"...+3976"));
}

TEST_F(ValueDescriberTest, StringsStayAsTheyAre) {
  RunAll(R"(
text = ''.join(['\xe9'] * 10)
class Named: pass
Named.__qualname__ = ''.join(['N', '\xe9', 'e'])
Named.__module__ = ''.join(['m', '\u20ac'])
def sizes():
    return [sys.getsizeof(each) for each in (text, Named.__qualname__, Named.__module__)]
before = sizes()
)");
  EXPECT_NE(Describe("text"), "");
  EXPECT_EQ(Describe("Named()"),
            "object(\"m\xe2\x82\xac.N\xc3\xa9"
            "e\")");
  RunAll("assert sizes() == before, (before, sizes())");
}

TEST_F(ValueDescriberTest, MembersOfEnumerationsHaveNames) {
  RunAll(R"(
import enum
class Color(enum.Enum):
    RED = {}
    CRIMSON = RED
    @property
    def name(self): asked.append(self)
class Size(enum.IntEnum):
    BIG = 7
class Text(str, enum.Enum):
    A = 'a'
class Access(enum.Flag):
    READ = 1
    WRITE = 2
class Outer:
    class Inner(enum.Enum):
        X = 1
asked = []
unnamed = object.__new__(Color)
class Meta(type): pass
class Other(metaclass=Meta): pass
)");
  for (const auto& [expression, text] : std::vector<std::pair<std::string, std::string>>{
           {"Color.RED", R"(object("__main__.Color.RED"))"},
           {"Color.CRIMSON", R"(object("__main__.Color.RED"))"},
           {"Outer.Inner.X", R"(object("__main__.Outer.Inner.X"))"},
           {"Access.READ", R"(object("__main__.Access.READ"))"},
           {"unnamed", R"(object("__main__.Color"))"},
           {"Other()", R"(object("__main__.Other"))"},
           {"Color", R"(type("__main__.Color"))"},
           // Members that are numbers or strings are described as such.
           {"Size.BIG", "7"},
           {"Text.A", R"("a")"},
       }) {
    EXPECT_EQ(Describe(expression), text);
  }
  // Python 3.10 has no name for combined flags.
  const std::string both = Describe("Access.READ | Access.WRITE");
  EXPECT_TRUE(both == R"(object("__main__.Access.READ|WRITE"))" || both == "object(\"__main__.Access(3)\")") << both;
  RunAll("assert asked == [], asked");
}

TEST_F(ValueDescriberTest, Ints) {
  for (const char* number :
       {"2**63", "-2**63-1", "2**64", "10**30", "-10**40", "10**18 * 10**9", "2**4096-1", "-(2**4096-1)"}) {
    EXPECT_EQ(Describe(number), EvaluateText(absl::StrCat("str(", number, ")")));
  }
  EXPECT_EQ(Describe("2**4096"), R"(int("4097 bits"))");
  EXPECT_EQ(Describe("-(1 << 10_000_000)"), R"(int("-10000001 bits"))");
}

TEST_F(ValueDescriberTest, KeysAreNotCompared) {
  RunAll(R"(
class Key(str):
    armed = False
    __hash__ = str.__hash__
    def __eq__(self, other):
        if Key.armed:
            calls.append("__eq__")
            raise RuntimeError
        return str.__eq__(self, other)
Odd = type("Odd", (), {Key("__module__"): "odd"})
odd = Odd()
odd.__dict__[Key("name")] = 1
Key.armed = True
)");
  EXPECT_EQ(Describe("odd"), R"(object("odd.Odd"))");
  EXPECT_EQ(Describe("{Key('a'): 1}"), R"(dict{"a": 1})");
  PyObject* const odd = Evaluate("odd");
  EXPECT_NE(InstanceAttribute(odd, "name"), nullptr);
  RunAll("Key.armed = False\nassert calls == [], calls");
}

TEST_F(ValueDescriberTest, InstanceAttributes) {
  RunAll(R"(
class Plain:
    def __init__(self):
        self.first = 1
        self.second = "two"
plain = Plain()
asked = Plain()
asked.__dict__["third"] = 3
)");
  PyObject* const plain = Evaluate("plain");
  {
    const AllocationCounter counter;
    EXPECT_TRUE(TextIs(InstanceAttribute(plain, "second"), "two"));
    EXPECT_EQ(InstanceAttribute(plain, "third"), nullptr);
    EXPECT_EQ(InstanceAttribute(Py_None, "first"), nullptr);
    EXPECT_EQ(counter.count(), 0);
  }
  PyObject* const asked = Evaluate("asked");
  EXPECT_TRUE(TextIs(InstanceAttribute(asked, "second"), "two"));
  EXPECT_NE(InstanceAttribute(asked, "third"), nullptr);
}

TEST_F(ValueDescriberTest, TheClassIsNotAsked) {
  RunAll(R"(
class Asked:
    @property
    def __class__(self):
        calls.append("__class__")
        raise RuntimeError
)");
  EXPECT_EQ(Describe("Asked()"), R"(object("__main__.Asked"))");
  RunAll("assert calls == [], calls");
}

TEST_F(ValueDescriberTest, TupleThatIsBeingMade) {
  PyObject* const tuple = PyTuple_New(2);
  PyTuple_SET_ITEM(tuple, 0, PyLong_FromLong(1));
  EXPECT_EQ(Describe(tuple), "tuple(1, None)");
}

TEST_F(ValueDescriberTest, NoFinalizerRunsMeanwhile) {
  RunAll(R"(
items = ['\udc80', 1 << 100, range(3), 'a\xe9', len, object()] * 50
class Cycle:
    def __init__(self):
        self.own = self
    def __del__(self):
        calls.append("__del__")
        items.clear()
gc.collect()
gc.disable()
old = gc.get_threshold()
gc.set_threshold(1)
for _ in range(10):
    Cycle()
)");
  PyObject* const items = Evaluate("items");
  PyGC_Enable();
  const std::string text = Describe(items);
  PyGC_Disable();
  EXPECT_EQ(PyList_GET_SIZE(items), 300);
  RunAll("assert calls == [], calls\ngc.set_threshold(*old)\ngc.enable()\ngc.collect()\ncalls.clear()");
  EXPECT_TRUE(text.starts_with(R"(list["\udc80", 1267650600228229401496703205376, range(0, 3, 1), )")) << text;
}

}  // namespace
}  // namespace torchtrace
