// Tests NativeEntries with a library made for it, in an embedded Python: calls of each kind of callable are seen,
// however it is called, and afterwards every pointer is the same as before.

#define PY_SSIZE_T_CLEAN
#include "dialects/python/setattr/native_entries.h"

#include <Python.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dialects/python/setattr/call_through.h"
#include "dialects/python/testing/embedded_python.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace torchtrace::python_dialect {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kLibrary[] = R"(
import functools
import sys
import types

lib = types.ModuleType("lib")
lib.__path__ = []
sys.modules["lib"] = lib
code = '''
import functools, math, array, datetime, decimal, collections, itertools, re

def function(a, b=2, *args, c=3, **kwargs):
    return a

def outer(x):
    return inner(x)

def inner(x):
    return x

def failing():
    raise KeyError("no")

def generator():
    yield 1

def deep(n):
    return 0 if n == 0 else 1 + deep(n - 1)

alias = function
cached = functools.lru_cache(lambda x: x)
part = functools.partial(max, 5)

class Meta(type):
    pass

class Class:
    def __init__(self, x=0):
        self.x = x
    def method(self, x):
        return x
    @classmethod
    def class_method(cls, x):
        return x
    @staticmethod
    def static_method(x):
        return x
    @property
    def prop(self):
        return self.x
    @prop.setter
    def prop(self, value):
        self.x = value
    def __getitem__(self, key):
        return key
    def __add__(self, other):
        return other

class WithMeta(metaclass=Meta):
    pass

class Callable:
    def __call__(self, x):
        return x
instance = Callable()
other_instance = Callable()

class Days(datetime.timedelta):
    pass

appended = [].append
'''
exec(code, lib.__dict__)
early = lib.function
bound = lib.Class().method
)";

class Observer final : public EntryDialect {
 public:
  bool Begin(const TracedApi& api, const CallArguments& arguments) override {
    if (api.name == refused) return false;
    std::string text = absl::StrCat(api.name, "(", arguments.count + (arguments.self != nullptr));
    if (arguments.names != nullptr) {
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments.names); ++i) {
        absl::StrAppend(&text, " ", PyUnicode_AsUTF8(PyTuple_GET_ITEM(arguments.names, i)));
      }
    }
    if (arguments.keywords != nullptr) {
      PyObject *name, *value;
      Py_ssize_t position = 0;
      while (PyDict_Next(arguments.keywords, &position, &name, &value)) {
        absl::StrAppend(&text, " ", PyUnicode_AsUTF8(name));
      }
    }
    calls.push_back(absl::StrCat(std::string(2 * depth++, ' '), text, ")"));
    return true;
  }
  void End(PyObject* result) override {
    --depth;
    if (result == nullptr) {
      calls.push_back(reinterpret_cast<PyTypeObject*>(PyErr_Occurred())->tp_name);
    }
  }
  void CountGetter() override { ++getters; }
  absl::StatusOr<const TracedApi*> Api(PyObject* object, const std::string& name) override {
    if (++asked == fail_at) return absl::InternalError("no more names");
    return MakeTracedApi(0, name, object);
  }
  void NoteNotSeen(const std::string& text) override { notes.push_back(text); }

  std::vector<std::string> calls;
  std::vector<std::string> notes;
  std::string refused;
  size_t depth = 0;
  int getters = 0;
  int asked = 0;
  int fail_at = 0;
};

const std::vector<std::string>& AllNames() {
  static const auto* const names = new std::vector<std::string>{
      "lib.function",
      "lib.alias",
      "lib.outer",
      "lib.inner",
      "lib.failing",
      "lib.generator",
      "lib.deep",
      "lib.cached",
      "lib.part",
      "lib.Class",
      "lib.Class.method",
      "lib.Class.class_method",
      "lib.Class.static_method",
      "lib.Class.prop.__get__",
      "lib.Class.prop.__set__",
      "lib.Class.__getitem__",
      "lib.Class.__add__",
      "lib.WithMeta",
      "lib.instance",
      "lib.math.sqrt",
      "lib.math.gcd",
      "lib.math.log",
      "lib.math.isclose",
      "lib.array.array",
      "lib.array.array.append",
      "lib.array.array.itemsize.__get__",
      "lib.array.array.__getitem__",
      "lib.array.array.__setitem__",
      "lib.array.array.__delitem__",
      "lib.array.array.__len__",
      "lib.collections.deque",
      "lib.collections.deque.append",
      "lib.collections.deque.__getitem__",
      "lib.collections.deque.__setitem__",
      "lib.collections.deque.__delitem__",
      "lib.collections.deque.__add__",
      "lib.collections.deque.__mul__",
      "lib.collections.deque.__imul__",
      "lib.collections.deque.__contains__",
      "lib.re.Pattern.match",
      "lib.datetime.timedelta.__add__",
      "lib.datetime.timedelta.__mul__",
      "lib.datetime.timedelta.__rmul__",
      "lib.datetime.timedelta.__lt__",
      "lib.datetime.timedelta.__eq__",
      "lib.datetime.timedelta.__bool__",
      "lib.datetime.timedelta.__neg__",
      "lib.decimal.Decimal.__pow__",
      "lib.decimal.Decimal.__rpow__",
      "lib.decimal.Decimal.from_float",
  };
  return *names;
}

class NativeEntriesTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    static bool started = false;
    if (std::exchange(started, true)) return;
    if (Py_IsInitialized() == 0) Py_Initialize();
    ASSERT_EQ(Execute(kLibrary), "");
  }
  void TearDown() override {
    if (hook_ != nullptr) hook_->Uninstall();
  }
  absl::Status Install(std::vector<std::string> names, bool outermost = false, bool include_getters = false) {
    observer_ = new Observer;  // never freed, as the hook requires
    observer_->fail_at = fail_at_;
    hook_ = new NativeEntries(
        observer_, {.level = 0, .names = std::move(names), .outermost = outermost, .include_getters = include_getters});
    return hook_->Install();
  }
  // The calls in `code`.
  std::vector<std::string> Calls(const std::string& code) {
    observer_->calls.clear();
    EXPECT_EQ(Execute(code), "") << code;
    return observer_->calls;
  }

  Observer* observer_ = nullptr;
  NativeEntries* hook_ = nullptr;
  int fail_at_ = 0;
};

TEST_F(NativeEntriesTest, PythonFunctions) {
  ASSERT_TRUE(Install(AllNames()).ok());
  EXPECT_THAT(Calls("lib.function(1)"), ElementsAre("lib.alias(1)"));
  EXPECT_THAT(Calls("lib.alias(1, 2, c=5, d=6)"), ElementsAre("lib.alias(2 c d)"));
  EXPECT_THAT(Calls("early(*[1], **{'c': 5})"), ElementsAre("lib.alias(1 c)"));
  EXPECT_THAT(Calls("list(map(early, [1, 2]))"), ElementsAre("lib.alias(1)", "lib.alias(1)"));
  EXPECT_THAT(Calls("lib.outer(1)"), ElementsAre("lib.outer(1)", "  lib.inner(1)"));
  EXPECT_THAT(Calls("list(lib.generator())"), ElementsAre("lib.generator(0)"));
  EXPECT_EQ(Execute("lib.failing()"), "KeyError: 'no'");
  EXPECT_THAT(observer_->calls, Contains("KeyError"));
}

TEST_F(NativeEntriesTest, EveryCallOfAHotLoop) {
  ASSERT_TRUE(Install(AllNames()).ok());
  const std::string code =
      "def hot(c, a, sqrt=lib.math.sqrt):\n"
      "  for i in range(500):\n"
      "    lib.inner(i); c.method(i); c[i]; c + i; c.prop; sqrt(i); a.append(i); lib.Class(i); len(a); a[0]\n"
      "hot(lib.Class(), lib.array.array('d', [1]))\n";
  EXPECT_EQ(Calls(code).size(), 2u + 9 * 500);
  EXPECT_EQ(observer_->getters, 500);
  // Calls in code that was specialised before are seen as well.
  hook_->Uninstall();
  ASSERT_EQ(Execute("hot(lib.Class(), lib.array.array('d', [1]))"), "");
  ASSERT_TRUE(Install(AllNames()).ok());
  EXPECT_EQ(Calls("hot(lib.Class(), lib.array.array('d', [1]))").size(), 2u + 9 * 500);
}

TEST_F(NativeEntriesTest, ClassesAndTheirMembers) {
  ASSERT_TRUE(Install(AllNames(), false, true).ok());
  EXPECT_THAT(Calls("c = lib.Class(5)"), ElementsAre("lib.Class(1)"));
  EXPECT_THAT(Calls("lib.Class(*(), **{'x': 1})"), ElementsAre("lib.Class(0 x)"));
  EXPECT_THAT(Calls("c.method(1); lib.Class.method(c, 1)"), ElementsAre("lib.Class.method(2)", "lib.Class.method(2)"));
  EXPECT_THAT(Calls("bound(1)"), ElementsAre("lib.Class.method(2)"));
  EXPECT_THAT(Calls("c.class_method(1); lib.Class.static_method(1)"),
              ElementsAre("lib.Class.class_method(2)", "lib.Class.static_method(1)"));
  EXPECT_THAT(Calls("c.prop = 3; assert c.prop == 3"),
              ElementsAre("lib.Class.prop.__set__(2)", "lib.Class.prop.__get__(1)"));
  EXPECT_THAT(Calls("assert c[4] == 4; c + 1"), ElementsAre("lib.Class.__getitem__(2)", "lib.Class.__add__(2)"));
  EXPECT_THAT(Calls("lib.WithMeta()"), ElementsAre("lib.WithMeta(0)"));
  EXPECT_THAT(Calls("class Other(metaclass=lib.Meta): pass\nOther()"), IsEmpty());
  EXPECT_THAT(Calls("class Sub(lib.Class):\n  def __init__(self): super().__init__(1)\nassert Sub().x == 1"),
              IsEmpty());
  EXPECT_THAT(Calls("lib.instance(1); lib.other_instance(1)"), ElementsAre("lib.instance(1)"));
  EXPECT_THAT(Calls("lib.cached(1); lib.cached(x=1); lib.part(3)"),
              ElementsAre("lib.cached(1)", "lib.cached(0 x)", "lib.part(1)"));
}

TEST_F(NativeEntriesTest, FunctionsAndTypesInC) {
  ASSERT_TRUE(Install(AllNames(), false, true).ok());
  EXPECT_THAT(Calls("import math\nmath.sqrt(4); math.gcd(4, 6); math.log(2, 3); math.isclose(1, 1, rel_tol=1e-3)"),
              ElementsAre("lib.math.sqrt(1)", "lib.math.gcd(2)", "lib.math.log(2)", "lib.math.isclose(2 rel_tol)"));
  EXPECT_THAT(Calls("a = lib.array.array('d', [1, 2])"), ElementsAre("lib.array.array(2)"));
  EXPECT_THAT(Calls("a.append(3); f = a.append; f(4)"),
              ElementsAre("lib.array.array.append(2)", "lib.array.array.append(2)"));
  EXPECT_THAT(Calls("assert a.itemsize == 8"), ElementsAre("lib.array.array.itemsize.__get__(1)"));
  EXPECT_THAT(
      Calls("assert a[1] == 2; a[0] = 7; del a[0]; assert len(a) == 3; a.__getitem__(0)"),
      ElementsAre("lib.array.array.__getitem__(2)", "lib.array.array.__setitem__(3)", "lib.array.array.__delitem__(2)",
                  "lib.array.array.__len__(1)", "lib.array.array.__getitem__(2)"));
  EXPECT_EQ(Execute("a[9]"), "IndexError: array index out of range");
  EXPECT_THAT(Calls("d = lib.collections.deque([1], maxlen=3); d.append(2)"),
              ElementsAre("lib.collections.deque(1 maxlen)", "lib.collections.deque.append(2)"));
}

TEST_F(NativeEntriesTest, MethodsThatAreToldTheirClass) {
  ASSERT_TRUE(Install(AllNames()).ok());
  ASSERT_EQ(Execute("pattern = lib.re.compile('a'); f = pattern.match"), "");
  EXPECT_THAT(Calls("assert pattern.match('ab', pos=0) and f('ab') and not lib.re.Pattern.match(pattern, 'b')"),
              ElementsAre("lib.re.Pattern.match(2 pos)", "lib.re.Pattern.match(2)", "lib.re.Pattern.match(2)"));
  EXPECT_THAT(Calls("for _ in range(100): pattern.match('a')").size(), 100u);
}

TEST_F(NativeEntriesTest, OperatorsOfSequencesInC) {
  ASSERT_TRUE(Install(AllNames()).ok());
  ASSERT_EQ(Execute("Deque = lib.collections.deque\nclass Before(Deque): pass\nd = Before([1, 2, 3])"), "");
  const std::string deque = "lib.collections.deque.";
  EXPECT_THAT(Calls("assert d[1] == 2 and d[-1] == 3 and 3 in d; d[0] = 7; del d[0]"),
              ElementsAre(deque + "__getitem__(2)", deque + "__getitem__(2)", deque + "__contains__(2)",
                          deque + "__setitem__(3)", deque + "__delitem__(2)"));
  EXPECT_THAT(Calls("assert len(d + d) == 4 and len(d * 3) == 6; 2 * d; d *= 2"),
              ElementsAre(deque + "__add__(2)", deque + "__mul__(2)", deque + "__mul__(2)", deque + "__imul__(2)"));
  EXPECT_THAT(Calls("class After(Deque): pass\nassert After([5])[0] == 5"), ElementsAre(deque + "__getitem__(2)"));
  EXPECT_EQ(Execute("d[99]"), "IndexError: deque index out of range");
  hook_->Uninstall();
  EXPECT_THAT(Calls("d[0]; After([5])[0]; d * 2"), IsEmpty());
}

TEST_F(NativeEntriesTest, IteratorsInC) {
  ASSERT_TRUE(Install({"lib.itertools.chain.__next__", "lib.itertools.chain.__iter__"}).ok());
  EXPECT_THAT(Calls("assert [x for x in lib.itertools.chain([1], [2])] == [1, 2]"),
              ElementsAre("lib.itertools.chain.__iter__(1)", "lib.itertools.chain.__next__(1)",
                          "lib.itertools.chain.__next__(1)", "lib.itertools.chain.__next__(1)"));
  EXPECT_EQ(Execute("next(lib.itertools.chain(1 // x for x in [0]))"),
            "ZeroDivisionError: integer division or modulo by zero");
  EXPECT_THAT(observer_->calls, Contains("ZeroDivisionError"));
}

TEST_F(NativeEntriesTest, AnyNumberOfTimes) {
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(Install({"lib.math.sqrt", "lib.re.Pattern.match", "lib.collections.deque.__getitem__", "lib.inner",
                         "lib.array.array.itemsize"})
                    .ok());
    ASSERT_THAT(Calls("lib.math.sqrt(lib.inner(4)); lib.collections.deque([1])[0]"),
                ElementsAre("lib.inner(1)", "lib.math.sqrt(1)", "lib.collections.deque.__getitem__(2)"));
    hook_->Uninstall();
    ASSERT_THAT(observer_->notes, IsEmpty());
  }
}

TEST_F(NativeEntriesTest, OperatorsInC) {
  ASSERT_TRUE(Install(AllNames()).ok());
  ASSERT_EQ(Execute("import datetime, decimal\nday = datetime.timedelta(1); D = decimal.Decimal(2)"), "");
  EXPECT_THAT(Calls("day + day"), ElementsAre("lib.datetime.timedelta.__add__(2)"));
  EXPECT_THAT(Calls("assert day * 2 == 2 * day"),
              ElementsAre("lib.datetime.timedelta.__mul__(2)", "lib.datetime.timedelta.__rmul__(2)",
                          "lib.datetime.timedelta.__eq__(2)"));
  EXPECT_THAT(Calls("assert day < 2 * day or day > day"),
              ElementsAre("lib.datetime.timedelta.__rmul__(2)", "lib.datetime.timedelta.__lt__(2)"));
  EXPECT_THAT(Calls("bool(day); -day"),
              ElementsAre("lib.datetime.timedelta.__bool__(1)", "lib.datetime.timedelta.__neg__(1)"));
  EXPECT_THAT(Calls("D ** 2; 2 ** D; pow(D, 3, 5)"),
              ElementsAre("lib.decimal.Decimal.__pow__(2)", "lib.decimal.Decimal.__rpow__(2)",
                          "lib.decimal.Decimal.__pow__(3)"));
  EXPECT_THAT(Calls("D.from_float(1.5)"), ElementsAre("lib.decimal.Decimal.from_float(2)"));
  // A subclass from before, one from after, and one with its own method.
  EXPECT_THAT(Calls("lib.Days(1) + day"), ElementsAre("lib.datetime.timedelta.__add__(2)"));
  EXPECT_THAT(Calls("class After(datetime.timedelta): pass\nAfter(1) + day"),
              ElementsAre("lib.datetime.timedelta.__add__(2)"));
  EXPECT_THAT(Calls("class Own(datetime.timedelta):\n  def __add__(self, x): return super().__add__(x)\nOwn(1) + day"),
              ElementsAre("lib.datetime.timedelta.__add__(2)"));
  ASSERT_EQ(Execute("import gc\ndel lib.Days, Own\ngc.collect()\nlib.Days = After"), "");
  hook_->Uninstall();
  EXPECT_THAT(Calls("After(1) + day; lib.Days(1) + day; day * 2; D ** 2"), IsEmpty());
}

TEST_F(NativeEntriesTest, Outermost) {
  ASSERT_TRUE(Install(AllNames(), true).ok());
  EXPECT_THAT(Calls("lib.outer(1); lib.inner(1)"), ElementsAre("lib.outer(1)", "lib.inner(1)"));
  EXPECT_EQ(Execute("lib.failing()"), "KeyError: 'no'");
  EXPECT_THAT(Calls("lib.inner(1)"), ElementsAre("lib.inner(1)"));
  observer_->refused = "lib.outer";
  EXPECT_THAT(Calls("lib.outer(1)"), ElementsAre("lib.inner(1)"));
}

TEST_F(NativeEntriesTest, DeepRecursionNeedsNoMoreStackThanUntraced) {
  ASSERT_TRUE(Install(AllNames()).ok());
  EXPECT_EQ(Execute("import sys\nsys.setrecursionlimit(200000)\nassert lib.deep(150000) == 150000"), "");
  EXPECT_GT(observer_->calls.size(), 1000u);
  EXPECT_THAT(Calls("lib.inner(1)"), ElementsAre("lib.inner(1)"));
}

TEST_F(NativeEntriesTest, WhatIsNotThereOrCannotBeTracedIsTold) {
  ASSERT_TRUE(Install({"lib.nothing", "lib.Class.nothing", "lib.__path__", "lib.Class.__str__", "lib.Days.__new__",
                       "nowhere.x"})
                  .ok());
  hook_->Uninstall();
  EXPECT_THAT(
      observer_->notes,
      ElementsAre("level 0: 2 of the API list are not there: lib.nothing, lib.Class.nothing",
                  "level 0: 3 of the API list cannot be traced: lib.__path__, lib.Class.__str__, lib.Days.__new__",
                  "level 0: the API list names nowhere, which the program did not import"));
}

TEST_F(NativeEntriesTest, ModulesThatAreImportedLater) {
  ASSERT_TRUE(Install({"colorsys.rgb_to_hsv", "xml.dom.minidom.parseString", "xml.sax.no_such"}).ok());
  EXPECT_THAT(Calls("import colorsys\ncolorsys.rgb_to_hsv(1, 2, 3)"), ElementsAre("colorsys.rgb_to_hsv(3)"));
  EXPECT_THAT(Calls("from xml.dom.minidom import parseString\nparseString('<a/>')"),
              ElementsAre("xml.dom.minidom.parseString(1)"));
  EXPECT_EQ(Execute("import xml.sax"), "");
  hook_->Uninstall();
  EXPECT_THAT(observer_->notes, ElementsAre(HasSubstr("are not there: xml.sax.no_such")));
}

// Every word of every struct that an entry could be in, except what changes anyway (reference counts, caches).
std::vector<std::string> Snapshot() {
  std::vector<std::string> words;
  const auto add = [&](const std::string& what, const void* start, size_t bytes) {
    words.push_back(what + std::string(static_cast<const char*>(start), bytes));
  };
  PyObject* const objects = Evaluate(
      "[each for owner in (lib, lib.math, lib.array, lib.array.array, lib.collections.deque, lib.Class, lib.Meta, "
      "lib.WithMeta, lib.Callable, lib.Days, lib.datetime.timedelta, lib.decimal.Decimal, datetime.timedelta, "
      "type(lib.cached), functools.partial) for each in [owner, *vars(owner).values()]]");
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(objects); ++i) {
    PyObject* object = PyList_GET_ITEM(objects, i);
    if (Py_TYPE(object) == &PyStaticMethod_Type || Py_TYPE(object) == &PyClassMethod_Type) {
      object = PyObject_GetAttrString(object, "__func__");
    }
    if (Py_TYPE(object) == &PyProperty_Type) object = PyObject_GetAttrString(object, "fget");
    const std::string name = absl::StrCat(i, " ", Py_TYPE(object)->tp_name, " ");
    if (PyFunction_Check(object)) {
      const auto* const function = reinterpret_cast<PyFunctionObject*>(object);
      add(name, &function->func_globals, sizeof *function - offsetof(PyFunctionObject, func_globals) - 8);
    } else if (PyCFunction_Check(object)) {
      add(name, reinterpret_cast<PyCFunctionObject*>(object)->m_ml, sizeof(PyMethodDef));
    } else if (Py_TYPE(object) == &PyMethodDescr_Type || Py_TYPE(object) == &PyClassMethodDescr_Type) {
      add(name, reinterpret_cast<PyMethodDescrObject*>(object)->d_method, sizeof(PyMethodDef));
    } else if (Py_TYPE(object) == &PyGetSetDescr_Type) {
      add(name, reinterpret_cast<PyGetSetDescrObject*>(object)->d_getset, sizeof(PyGetSetDef));
    } else if (Py_TYPE(object) == &PyWrapperDescr_Type) {
      add(name, &reinterpret_cast<PyWrapperDescrObject*>(object)->d_wrapped, sizeof(void*));
    } else if (PyType_Check(object)) {
      const auto* const type = reinterpret_cast<PyTypeObject*>(object);
      add(name + "call", &type->tp_call, sizeof(void*));
      add(name + "vectorcall", &type->tp_vectorcall, sizeof(void*));
      add(name + "compare", &type->tp_richcompare, sizeof(void*));
      if (type->tp_as_number) add(name + "number", type->tp_as_number, sizeof *type->tp_as_number);
      if (type->tp_as_mapping) add(name + "mapping", type->tp_as_mapping, sizeof *type->tp_as_mapping);
      if (type->tp_as_sequence) add(name + "sequence", type->tp_as_sequence, sizeof *type->tp_as_sequence);
    }
    if (Py_TYPE(object)->tp_flags & Py_TPFLAGS_HAVE_VECTORCALL) {
      add(name + "own", reinterpret_cast<char*>(object) + Py_TYPE(object)->tp_vectorcall_offset, sizeof(void*));
    }
  }
  return words;
}

size_t Differences(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  EXPECT_EQ(a.size(), b.size());
  size_t count = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) count += a[i] != b[i];
  return count;
}

TEST_F(NativeEntriesTest, UninstallPutsEveryWordBack) {
  ASSERT_EQ(Execute("import datetime, functools"), "");
  const std::vector<std::string> before = Snapshot();
  ASSERT_TRUE(Install(AllNames()).ok());
  EXPECT_GE(Differences(before, Snapshot()), AllNames().size());
  Execute("lib.outer(1); lib.Class(1)[2]");
  hook_->Uninstall();
  EXPECT_EQ(Differences(before, Snapshot()), 0u);
  EXPECT_THAT(Calls("lib.outer(1); lib.Class(1)[2]"), IsEmpty());
}

TEST_F(NativeEntriesTest, AFailedInstallLeavesNothing) {
  ASSERT_EQ(Execute("import datetime, functools"), "");
  const std::vector<std::string> before = Snapshot();
  fail_at_ = 20;
  EXPECT_EQ(Install(AllNames()).message(), "no more names");
  EXPECT_EQ(Differences(before, Snapshot()), 0u);
  EXPECT_THAT(Calls("lib.outer(1); lib.Class(1)[2]"), IsEmpty());
}

TEST_F(NativeEntriesTest, BuiltinsAreEqualAndHashAsBefore) {
  // Two objects of one definition, and a dictionary from before.
  ASSERT_EQ(Execute("import math\nlist_ = lib.array.array('d')\nf, g = list_.append, list_.append\n"
                    "assert f is not g\nbefore = {f: 1, math.sqrt: 2}\nhashes = list(map(hash, before))"),
            "");
  ASSERT_TRUE(Install(AllNames()).ok());
  const char* const kSame =
      "assert before[f] == before[g] == before[list_.append] == 1 and before[math.sqrt] == 2\n"
      "assert f == g and not f != g and f != math.sqrt and f.__eq__(g) and f.__hash__() == hash(f)\n"
      "assert hashes == list(map(hash, before)) and f != 1 and lib.array.array('d').append != f";
  EXPECT_EQ(Execute(kSame), "");
  hook_->Uninstall();
  EXPECT_EQ(Execute(kSame), "");
}

TEST_F(NativeEntriesTest, ObjectsStayWhatTheyAre) {
  const char* const kFacts =
      "import inspect, pickle, copy\n"
      "def facts(f): return (id(f), type(f), repr(f), hash(f), f == f, getattr(f, '__name__', 0),\n"
      "  inspect.signature(f) if inspect.isfunction(f) else 0, getattr(f, '__code__', 0), f is copy.copy(f) if "
      "inspect.isfunction(f) else 0,\n"
      "  inspect.isbuiltin(f), getattr(f, '__defaults__', 0), sorted(dir(f)))\n"
      "all_facts = lambda: [facts(f) for o in (lib, lib.Class, lib.array.array) for f in vars(o).values()\n"
      "  if callable(f)]\n";
  ASSERT_EQ(Execute(kFacts), "");
  ASSERT_EQ(Execute("before = all_facts()"), "");
  ASSERT_TRUE(Install(AllNames()).ok());
  EXPECT_EQ(Execute("after = all_facts()\nassert before == after, [p for p in zip(before, after) if p[0] != p[1]]"),
            "");
  EXPECT_EQ(Execute("lib.inner.__code__ = (lambda x: -x).__code__\nassert lib.inner(1) == -1"), "");
  EXPECT_EQ(Execute("lib.function.__defaults__ = (9,)\nlib.function.__kwdefaults__ = {'c': 1}\nlib.function(1)"), "");
  EXPECT_THAT(Calls("lib.inner(1); lib.function(1)"), ElementsAre("lib.inner(1)", "lib.alias(1)"));
}

}  // namespace
}  // namespace torchtrace::python_dialect
