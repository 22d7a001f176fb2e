#define PY_SSIZE_T_CLEAN
#include "dialects/python/setattr/function_patches.h"

#include <Python.h>

#include <string>

#include "dialects/python/testing/embedded_python.h"
#include "gtest/gtest.h"

namespace torchtrace::python_dialect {
namespace {

int g_calls = 0;
vectorcallfunc g_below = nullptr;

PyObject* CountCalls(PyObject* function, PyObject* const* arguments, size_t flags, PyObject* names) {
  ++g_calls;
  return g_below(function, arguments, flags, names);
}

FunctionPatches& Counted() {
  static auto* const patches = new FunctionPatches;
  return *patches;
}

// Of a new function in __main__; a borrowed reference.
PyObject* MakeFunction(const std::string& name) {
  EXPECT_EQ(Execute("def " + name + "(): return held"), "");
  PyObject* const function = Evaluate(name);
  Py_DECREF(function);
  return function;
}

vectorcallfunc& Entry(PyObject* function) { return reinterpret_cast<PyFunctionObject*>(function)->vectorcall; }

void Patch(PyObject* function) {
  g_below = Entry(function);
  Counted().Of(function)->Replace(&Entry(function), &CountCalls);
}

TEST(FunctionPatches, AreForgottenWithTheirFunctions) {
  if (Py_IsInitialized() == 0) Py_Initialize();
  ASSERT_EQ(Execute("held = 7; import weakref"), "");
  PyObject* const kept = MakeFunction("kept");
  const vectorcallfunc before = Entry(kept);
  Patch(kept);
  PyObject* const freed = MakeFunction("freed");
  Patch(freed);
  ASSERT_EQ(Execute("gone = weakref.ref(freed); freed.__call__()"), "");
  EXPECT_EQ(g_calls, 1);
  ASSERT_TRUE(Counted().Has(freed));
  // Nothing here holds it, and what comes to its place has no patches.
  ASSERT_EQ(Execute("del freed; assert gone() is None"), "");
  EXPECT_FALSE(Counted().Has(freed));
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(Counted().Has(MakeFunction("another")));
  EXPECT_TRUE(Counted().Has(kept));
  Counted().UndoAll();
  EXPECT_FALSE(Counted().Has(kept));
  EXPECT_EQ(Entry(kept), before);
  ASSERT_EQ(Execute("assert kept.__call__() == 7"), "");
  EXPECT_EQ(g_calls, 1);
}

// A loop that defines a function in each pass.
TEST(FunctionPatches, ManyFunctionsComeAndGo) {
  if (Py_IsInitialized() == 0) Py_Initialize();
  for (int i = 0; i < 10'000; ++i) Patch(MakeFunction("passing"));
  PyObject* const last = Evaluate("passing");
  EXPECT_TRUE(Counted().Has(last));
  Counted().UndoAll();
  Py_DECREF(last);
  EXPECT_EQ(Execute("del passing"), "");
}

}  // namespace
}  // namespace torchtrace::python_dialect
