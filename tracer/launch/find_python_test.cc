#include "tracer/launch/find_python.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace torchtrace {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// An environment with no Python except those that a test makes.
class FindPythonTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/find_python_XXXXXX";
    root_ = fs::canonical(mkdtemp(pattern.data()));
    before_ = fs::current_path();
    fs::current_path(root_);
    for (const char* name : {"TORCHTRACE_PYTHON", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONNOUSERSITE"}) {
      unsetenv(name);
    }
    setenv("PATH", (root_ / "bin").c_str(), 1);
  }
  void TearDown() override {
    fs::current_path(before_);
    fs::remove_all(root_);
  }

  std::string MakeFile(const fs::path& name, const std::string& text = "", int mode = 0644) {
    const fs::path path = root_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    chmod(path.c_str(), static_cast<mode_t>(mode));
    return path.string();
  }
  std::string MakePython(const fs::path& name) { return MakeFile(name, "#!/bin/sh\n", 0755); }
  std::string Path(const char* name) const { return (root_ / name).string(); }

  fs::path root_, before_;
};

std::string Describe(const absl::StatusOr<FoundPython>& found) {
  if (!found.ok()) return absl::StrCat("error: ", found.status().message());
  return absl::StrCat(found->path, " by ", found->source);
}

TEST_F(FindPythonTest, GoesThroughTheOrder) {
  EXPECT_THAT(Describe(FindPython("", Path("own"))), HasSubstr("error: found no Python"));
  MakePython("bin/python3");
  EXPECT_EQ(Describe(FindPython("", Path("own"))), "python3 by PATH");
  MakePython(".venv/bin/python3");
  EXPECT_EQ(Describe(FindPython("", Path("own"))), Path(".venv/bin/python3") + " by .venv");
  MakePython("conda/bin/python3");
  setenv("CONDA_PREFIX", Path("conda").c_str(), 1);
  EXPECT_EQ(Describe(FindPython("", Path("own"))), Path("conda/bin/python3") + " by CONDA_PREFIX");
  MakePython("venv/bin/python3");
  setenv("VIRTUAL_ENV", Path("venv").c_str(), 1);
  EXPECT_EQ(Describe(FindPython("", Path("own"))), Path("venv/bin/python3") + " by VIRTUAL_ENV");
  MakePython("own/bin/python3");
  EXPECT_EQ(Describe(FindPython("", Path("own"))), Path("own/bin/python3") + " by torchtrace's own environment");
  EXPECT_EQ(Describe(FindPython("", "")), Path("venv/bin/python3") + " by VIRTUAL_ENV");
  MakePython("mine/bin/python3");
  setenv("TORCHTRACE_PYTHON", Path("mine").c_str(), 1);
  EXPECT_EQ(Describe(FindPython("", Path("own"))), Path("mine/bin/python3") + " by TORCHTRACE_PYTHON");
  MakePython("other/python3.9");
  EXPECT_EQ(Describe(FindPython("other/python3.9", Path("own"))), "other/python3.9 by --python");
  EXPECT_EQ(Describe(FindPython("python3", Path("own"))), "python3 by --python");
}

TEST_F(FindPythonTest, PassesOverAnEnvironmentThatIsGone) {
  MakePython("bin/python3");
  setenv("VIRTUAL_ENV", Path("gone").c_str(), 1);
  EXPECT_EQ(Describe(FindPython("", Path("own"))), "python3 by PATH");
}

TEST_F(FindPythonTest, RefusesWhatWasNamedAndIsNotThere) {
  MakePython("bin/python3");
  MakeFile("plain/python3");  // not executable
  fs::create_directories(root_ / "empty");
  for (const char* name : {"nowhere/python3", "python9", "plain/python3", "empty"}) {
    EXPECT_THAT(Describe(FindPython(name, Path("own"))), HasSubstr("which --python names")) << name;
  }
}

TEST_F(FindPythonTest, TellsWhatDoesNotWork) {
  const std::string broken = MakeFile("broken", "#!/bin/sh\necho 'no such option: -I' >&2\nexit 2\n", 0755);
  setenv("PATH", "/usr/bin:/bin", 1);
  EXPECT_THAT(std::string(AskPython({broken, "--python"}).status().message()),
              HasSubstr("does not work as a Python 3: no such option: -I"));
  const std::string silent = MakeFile("silent", "#!/bin/sh\nexit 0\n", 0755);
  EXPECT_THAT(std::string(AskPython({silent, "--python"}).status().message()), HasSubstr("is not a Python 3"));
}

// A script that prints what a Python of this implementation, version and ABI would print.
std::string Answer(const std::string& implementation, const std::string& version, const std::string& abiflags) {
  std::string answer;
  for (const std::string& field :
       {implementation, version, abiflags, std::string("/p/bin/python3"), std::string("/p/bin/python3.12"),
        std::string("yes"), std::string("/p/lib/libpython.so"), std::string(), std::string("/p/site"),
        std::string("/q/site")}) {
    absl::StrAppend(&answer, field, "\\000");
  }
  return absl::StrCat("#!/bin/sh\nprintf '", answer, "'\n");
}

TEST_F(FindPythonTest, AsksPython) {
  setenv("PATH", "/usr/bin:/bin", 1);
  const std::string script = MakeFile("shim", Answer("cpython", "3.12.1", ""), 0755);
  const absl::StatusOr<PythonInfo> info = AskPython({script, "PATH"});
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->argv0, "/p/bin/python3");
  EXPECT_EQ(info->version, "3.12.1");
  EXPECT_EQ(info->executable, "/p/bin/python3");
  EXPECT_EQ(info->program, "/p/bin/python3.12");
  EXPECT_TRUE(info->uses_libpython);
  EXPECT_EQ(info->libpython, "/p/lib/libpython.so");
  EXPECT_EQ(info->user_site_folder, "");
  EXPECT_THAT(info->site_folders, ElementsAre("/p/site", "/q/site"));
}

TEST_F(FindPythonTest, RefusesWhatCannotBeTraced) {
  setenv("PATH", "/usr/bin:/bin", 1);
  const auto ask = [&](const std::string& implementation, const std::string& version, const std::string& abiflags) {
    const std::string script = MakeFile("python", Answer(implementation, version, abiflags), 0755);
    const std::string said(AskPython({script, "--python"}).status().message());
    return said.substr(std::min(said.size(), script.size()));
  };
  const std::string by = " (named by --python) is ", range = "; torchtrace traces CPython 3.10 to 3.14";
  for (const char* version : {"3.6.15", "3.9.18", "3.15.0", "4.0.0", "2.7.18"}) {
    EXPECT_EQ(ask("cpython", version, ""), absl::StrCat(by, "Python ", version, range));
  }
  EXPECT_EQ(ask("cpython", "3.13.0", "t"), absl::StrCat(by, "a free-threaded Python 3.13.0, which has no GIL", range));
  EXPECT_EQ(ask("pypy", "3.10.12", ""), absl::StrCat(by, "pypy", range));
  for (const char* version : {"3.10.0", "3.14.2"}) EXPECT_EQ(ask("cpython", version, ""), "");
  EXPECT_EQ(ask("cpython", "3.12.1", "d"), "");
}

TEST_F(FindPythonTest, PackageFoldersFollowPythonsOptions) {
  PythonInfo python;
  python.user_site_folder = "/user";
  python.site_folders = {"/site"};
  EXPECT_THAT(PackageFolders(python, {}), ElementsAre("/user", "/site"));
  setenv("PYTHONPATH", "/a:/b", 1);
  EXPECT_THAT(PackageFolders(python, {}), ElementsAre("/a", "/b", "/user", "/site"));
  EXPECT_THAT(PackageFolders(python, {"-s"}), ElementsAre("/a", "/b", "/site"));
  EXPECT_THAT(PackageFolders(python, {"-BE"}), ElementsAre("/user", "/site"));
  EXPECT_THAT(PackageFolders(python, {"-I"}), ElementsAre("/site"));
  EXPECT_THAT(PackageFolders(python, {"-S"}), ElementsAre("/a", "/b"));
  EXPECT_THAT(PackageFolders(python, {"-X", "-I"}), ElementsAre("/a", "/b", "/user", "/site"));
  EXPECT_THAT(PackageFolders(python, {"-Wignore::ImportWarning"}), ElementsAre("/a", "/b", "/user", "/site"));
  setenv("PYTHONNOUSERSITE", "1", 1);
  EXPECT_THAT(PackageFolders(python, {}), ElementsAre("/a", "/b", "/site"));
  EXPECT_THAT(PackageFolders(python, {"-E"}), ElementsAre("/user", "/site"));
}

TEST_F(FindPythonTest, ReadsThePackagesVersion) {
  MakeFile("a/torchvision-0.1.dist-info/METADATA", "Version: 0.1\n");
  MakeFile("a/torch.py", "");
  MakeFile("b/torch-2.1.0+cpu.dist-info/METADATA",
           "Metadata-Version: 2.1\nName: torch\nVersion: 2.1.0+cpu\n\nVersion: 9\n");
  MakeFile("c/torch-2.0.dist-info/METADATA", "Version: 2.0\n");
  EXPECT_EQ(PackageVersion("torch", {Path("a")}), "");
  EXPECT_EQ(PackageVersion("torch", {Path("nowhere"), Path("a"), Path("b"), Path("c")}), "2.1.0+cpu");
  EXPECT_EQ(PackageVersion("torch", {Path("c"), Path("b")}), "2.0");
}

TEST_F(FindPythonTest, ReadsDevelopmentInstalls) {
  MakeFile("site/easy-install.pth", "import os; os.abort()\n# x\n../source\n/nowhere\n");
  MakeFile("source/torch.egg-info/PKG-INFO", "Version: 2.2.0a0+git1\n");
  EXPECT_EQ(PackageVersion("torch", {Path("site")}), "2.2.0a0+git1");
  MakeFile("site/my_framework-1.0.egg-info", "Version: 1.0\n");
  EXPECT_EQ(PackageVersion("My-Framework", {Path("site")}), "1.0");
}

}  // namespace

}  // namespace torchtrace
