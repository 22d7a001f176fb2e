// Python.h first, as it demands.
#include "tracer/cpython/frames.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "dialects/python/testing/embedded_python.h"
#include "gtest/gtest.h"

namespace torchtrace {
namespace {

std::vector<std::string> g_seen;

PyObject* Look(PyObject*, PyObject*) {
  g_seen.clear();
  std::array<RunningFrame, 2> frames;
  const size_t all = RunningFrames(frames.data(), frames.size());
  for (size_t i = 0; i < std::min(all, frames.size()); ++i)
    g_seen.push_back(absl::StrCat(PyUnicode_AsUTF8(frames[i].code->co_name), ":", LineOf(frames[i])));
  g_seen.push_back(absl::StrCat(all));
  Py_RETURN_NONE;
}

PyMethodDef g_look = {"look", Look, METH_NOARGS, nullptr};

class FramesTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    Py_Initialize();
    PyObject* const look = PyCFunction_New(&g_look, nullptr);
    PyObject_SetAttrString(PyImport_AddModule("__main__"), "look", look);
    ASSERT_EQ(Execute("def inner():\n"
                      "  look()\n"
                      "def outer():\n"
                      "\n"
                      "  inner()\n"),
              "");
  }
};

TEST_F(FramesTest, AreReadOnceTheyAreKnown) {
  ASSERT_EQ(Execute("outer()"), "");
  EXPECT_EQ(g_seen, std::vector<std::string>{"0"});
  EXPECT_FALSE(FramesAreKnown());
  ASSERT_TRUE(CheckFrames());
  EXPECT_TRUE(FramesAreKnown());
  ASSERT_EQ(Execute("outer()"), "");
  EXPECT_EQ(g_seen, (std::vector<std::string>{"inner:2", "outer:5", "3"}));
}

TEST_F(FramesTest, AnErrorThatIsSetStays) {
  PyErr_SetString(PyExc_KeyError, "mine");
  CheckFrames();
  EXPECT_EQ(ErrorText(), "KeyError: 'mine'");
}

}  // namespace
}  // namespace torchtrace
