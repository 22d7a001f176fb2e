#include "tracer/launch/find_python.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "serialize/base/bytes.h"
#include "serialize/base/files.h"

extern char** environ;
namespace torchtrace {
namespace {

// Never returns a standard descriptor, even if those are closed.
int MakeMemoryFile(const char* name) {
  const int file = memfd_create(name, MFD_CLOEXEC);
  if (file < 0 || file > STDERR_FILENO) return file;
  const int moved = fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  close(file);
  return moved;
}

std::string ReadAll(int fd) {
  std::string text;
  char buffer[4096];
  off_t at = 0;
  for (ssize_t bytes; (bytes = pread(fd, buffer, sizeof buffer, at)) > 0; at += bytes) {
    text.append(buffer, static_cast<size_t>(bytes));
  }
  return text;
}

}  // namespace

absl::StatusOr<CommandResult> RunCommand(const std::vector<std::string>& command) {
  const auto failed = [&](int error) {
    return absl::InternalError(absl::StrCat("cannot run ", command[0], ": ", strerror(error)));
  };
  // Files in memory need no reader while the command runs, unlike pipes.
  const int out = MakeMemoryFile("stdout");
  const int err = MakeMemoryFile("stderr");
  absl::Cleanup close_files = [&] {
    if (out >= 0) close(out);
    if (err >= 0) close(err);
  };
  if (out < 0 || err < 0) return failed(errno);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return failed(error);

  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return failed(errno);
  }
  CommandResult result;
  result.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  result.standard_output = ReadAll(out);
  result.standard_error = ReadAll(err);
  return result;
}

namespace {

namespace fs = std::filesystem;

// Prints fields that end with a zero byte: implementation, version, ABI flags, executable, program, whether that uses
// libpython, libpython, user site folder, site folders.
// Uses the module site for what site would do, except for reading .pth files, which run code.
constexpr char kQuestion[] = R"(
import os, site, sys

prefix = os.path.dirname(os.path.dirname(os.path.abspath(sys.executable)))
system = sys.base_prefix
prefixes = [sys.prefix]
user_site = True
for folder in (os.path.dirname(os.path.abspath(sys.executable)), prefix):
    config = os.path.join(folder, "pyvenv.cfg")
    if not os.path.isfile(config):
        continue
    sys.prefix = sys.exec_prefix = prefix
    prefixes = [prefix]
    with open(config, encoding="utf-8") as lines:
        for line in lines:
            key, _, value = line.partition("=")
            if key.strip().lower() == "include-system-site-packages" and value.strip().lower() == "false":
                user_site = False
    if user_site:
        prefixes.append(system)
    break

library = ""
try:
    with open("/proc/self/maps") as lines:
        library = next((line.split(None, 5)[5].strip() for line in lines if "/libpython" in line), "")
except OSError:
    pass
uses_library = library != ""
abiflags = getattr(sys, "abiflags", "")
if not library:
    import sysconfig

    name = "libpython%d.%d%s.so.1.0" % (sys.version_info[0], sys.version_info[1], abiflags)
    libdir, multiarch = (sysconfig.get_config_var(key) or "" for key in ("LIBDIR", "MULTIARCH"))
    # Where it was moved to, where it was built for, where Debian has it.
    for folder in (os.path.join(system, "lib"), libdir, os.path.join(libdir, multiarch)):
        if folder and os.path.exists(os.path.join(folder, name)):
            library = os.path.join(folder, name)
            break

answer = [sys.implementation.name, "%d.%d.%d" % sys.version_info[:3], abiflags, sys.executable or ""]
answer += [os.path.realpath("/proc/self/exe"), "yes" if uses_library else "", library]
answer.append(site.getusersitepackages() if user_site else "")
answer += site.getsitepackages(prefixes)
os.write(1, b"".join(os.fsencode(field) + b"\0" for field in answer))
)";

constexpr char kPythonVersions[] =
#include "tracer/launch/python_versions.inc"
    ;

// {3, 11} of "3.11.7".
std::pair<int, int> MinorVersion(absl::string_view version) {
  const std::vector<absl::string_view> numbers = absl::StrSplit(version, '.');
  std::pair<int, int> minor;
  if (numbers.size() < 2 || !absl::SimpleAtoi(numbers[0], &minor.first) ||
      !absl::SimpleAtoi(numbers[1], &minor.second)) {
    return {};
  }
  return minor;
}

// An error if this Python can't be traced. `python`: its name in messages.
absl::Status CheckTraceable(const std::string& python, const std::string& implementation, const std::string& version,
                            const std::string& abiflags) {
  const absl::string_view range = absl::StripSuffix(kPythonVersions, "\n");
  const std::pair<std::string, std::string> ends = absl::StrSplit(range.substr(range.rfind('\n') + 1), ' ');
  const auto refuse = [&](absl::string_view what) {
    return absl::FailedPreconditionError(
        absl::StrCat(python, " is ", what, "; torchtrace traces CPython ", ends.first, " to ", ends.second));
  };
  if (implementation != "cpython") return refuse(implementation);
  const std::pair<int, int> minor = MinorVersion(version);
  if (minor < MinorVersion(ends.first) || MinorVersion(ends.second) < minor) {
    return refuse(absl::StrCat("Python ", version));
  }
  if (absl::StrContains(abiflags, 't')) {
    return refuse(absl::StrCat("a free-threaded Python ", version, ", which has no GIL"));
  }
  return absl::OkStatus();
}

bool IsExecutableFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

std::string Environment(const char* name) {
  const char* const value = getenv(name);
  return value != nullptr ? value : "";
}

// The file that a command of this name starts; empty if there is none.
std::string OnPath(const std::string& name) {
  for (const auto folder : absl::StrSplit(Environment("PATH"), ':')) {
    std::string candidate = absl::StrCat(folder.empty() ? "." : folder, "/", name);
    if (IsExecutableFile(candidate)) return candidate;
  }
  return "";
}

std::string FileOf(const std::string& command) {
  return command.find('/') != std::string::npos ? command : OnPath(command);
}

// `name`: a file, a name on PATH, or an environment's folder.
absl::StatusOr<FoundPython> FindNamed(const std::string& name, const std::string& source) {
  std::error_code error;
  if (fs::is_directory(name, error)) {
    std::string python = absl::StrCat(name, "/bin/python3");
    if (IsExecutableFile(python)) return FoundPython{std::move(python), source};
    return absl::NotFoundError(absl::StrCat("no Python at ", python, ", which ", source, " names"));
  }
  const bool found = name.find('/') != std::string::npos ? IsExecutableFile(name) : !OnPath(name).empty();
  if (found) return FoundPython{name, source};
  return absl::NotFoundError(absl::StrCat("no Python at ", name, ", which ", source, " names"));
}

// True for an executable, false for a script such as pyenv's shims.
bool IsProgram(const std::string& path) {
  char magic[4] = "";
  std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
  return magic[0] == '\x7f' && magic[1] == 'E';
}

// Changes when the file does.
std::string Stamp(const std::string& path) {
  struct stat info;
  if (path.empty() || stat(path.c_str(), &info) != 0) return "none";
  return absl::StrJoin({static_cast<int64_t>(info.st_dev), static_cast<int64_t>(info.st_ino), int64_t{info.st_size},
                        int64_t{info.st_mtim.tv_sec}, int64_t{info.st_mtim.tv_nsec}},
                       " ");
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();  // doesn't throw if reading fails
  return text.str();
}

// The name of the file for the answer of the Python at `path`, which changes with what the answer depends on, except
// its libpython; empty if that is unknown, because the path is relative or a script such as pyenv's shims.
std::string NameOfKept(const std::string& path) {
  if (!absl::StartsWith(path, "/") || !IsProgram(path)) return "";
  const fs::path folder = fs::path(path).parent_path();
  std::string facts = absl::StrCat(kQuestion, path, "\n", Stamp(path));
  for (const fs::path& place : {folder, folder.parent_path()}) {
    absl::StrAppend(&facts, "\n", ReadFile(place / "pyvenv.cfg"));
  }
  for (const char* const name : {"HOME", "LD_LIBRARY_PATH", "LD_PRELOAD"}) {
    absl::StrAppend(&facts, "\n", Environment(name));
  }
  return absl::StrCat(absl::Hex(Hash64(facts.data(), facts.size()), absl::kZeroPad16));
}

// Fields of an answer (kQuestion).
constexpr size_t kLibraryField = 6;
constexpr size_t kFields = 8;  // and at least one more

std::vector<std::string> ReadKept(const std::string& file) {
  std::vector<std::string> fields = absl::StrSplit(ReadFile(file), '\0');
  const std::string stamp = fields[0];
  fields.erase(fields.begin());
  if (fields.size() <= kFields || stamp != Stamp(fields[kLibraryField])) fields.clear();
  return fields;
}

std::string LastLine(const std::string& text) {
  const std::string stripped(absl::StripTrailingAsciiWhitespace(text));
  constexpr size_t kMost = 200;
  return stripped.substr(stripped.rfind('\n') + 1, kMost);
}

// Distribution names are compared in this form.
std::string NormalizedName(std::string name) {
  absl::AsciiStrToLower(&name);
  std::replace_if(name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
  return name;
}

std::string VersionInMetadata(const fs::path& file) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line) && !line.empty();) {
    absl::string_view rest = line;
    if (absl::ConsumePrefix(&rest, "Version:")) return std::string(absl::StripAsciiWhitespace(rest));
  }
  return "";
}

// The version of `package` in one folder, and the folders that .pth files add.
std::string VersionInFolder(const std::string& package, const fs::path& folder, std::vector<std::string>* more) {
  std::error_code error;
  std::vector<fs::path> pth_files;
  std::string version;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (absl::EndsWith(name, ".pth")) pth_files.push_back(entry->path());
    const bool dist_info = absl::EndsWith(name, ".dist-info");
    if (!version.empty() || (!dist_info && !absl::EndsWith(name, ".egg-info"))) continue;
    const std::string stem = NormalizedName(name.substr(0, std::min(name.find('-'), name.rfind('.'))));
    if (stem != NormalizedName(package)) continue;
    version = VersionInMetadata(entry->path() / (dist_info ? "METADATA" : "PKG-INFO"));
    if (version.empty()) version = VersionInMetadata(entry->path());  // an .egg-info file
  }
  std::sort(pth_files.begin(), pth_files.end());
  for (const fs::path& file : pth_files) {
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
      const std::string text(absl::StripTrailingAsciiWhitespace(line));
      if (text.empty() || text[0] == '#' || absl::StartsWith(text, "import ") || absl::StartsWith(text, "import\t")) {
        continue;
      }
      const fs::path added = folder / text;
      if (fs::is_directory(added, error)) more->push_back(added.string());
    }
  }
  return version;
}

// Whether `letter` is among python's short options.
bool HasFlag(const std::vector<std::string>& python_args, char letter) {
  for (size_t i = 0; i < python_args.size(); ++i) {
    const std::string& arg = python_args[i];
    if (arg.size() < 2 || arg[0] != '-' || arg[1] == '-') continue;
    for (size_t at = 1; at < arg.size(); ++at) {
      if (arg[at] == letter) return true;
      // These take the rest of the word, or the next word, as their value.
      if (arg[at] == 'X' || arg[at] == 'W') {
        if (at + 1 == arg.size()) ++i;
        break;
      }
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<FoundPython> FindPython(const std::string& option, const std::string& own_environment) {
  if (!option.empty()) return FindNamed(option, "--python");
  if (const std::string name = Environment("TORCHTRACE_PYTHON"); !name.empty()) {
    return FindNamed(name, "TORCHTRACE_PYTHON");
  }
  const std::pair<std::string, const char*> environments[] = {{own_environment, "torchtrace's own environment"},
                                                              {Environment("VIRTUAL_ENV"), "VIRTUAL_ENV"},
                                                              {Environment("CONDA_PREFIX"), "CONDA_PREFIX"}};
  for (const auto& [prefix, source] : environments) {
    if (prefix.empty()) continue;
    if (std::string path = absl::StrCat(prefix, "/bin/python3"); IsExecutableFile(path)) {
      return FoundPython{std::move(path), source};
    }
  }
  std::error_code error;
  if (std::string path = (fs::current_path(error) / ".venv/bin/python3").string(); IsExecutableFile(path)) {
    return FoundPython{std::move(path), ".venv"};
  }
  if (!OnPath("python3").empty()) return FoundPython{"python3", "PATH"};
  return absl::NotFoundError("found no Python: no --python, no environment is active, and python3 is not on PATH");
}

absl::StatusOr<PythonInfo> AskPython(const FoundPython& python, const std::string& kept) {
  const std::string where = absl::StrCat(python.path, " (named by ", python.source, ")");
  const std::string name = kept.empty() ? "" : NameOfKept(FileOf(python.path));
  const std::string file = name.empty() ? "" : absl::StrCat(kept, "/", name);
  std::vector<std::string> fields = file.empty() ? std::vector<std::string>() : ReadKept(file);
  if (fields.empty()) {
    const absl::StatusOr<CommandResult> result = RunCommand({python.path, "-I", "-S", "-c", kQuestion});
    if (!result.ok()) return result.status();
    if (result->exit_code != 0) {
      std::string said = LastLine(result->standard_error);
      // A program that isn't Python may quote our code in its error.
      if (said.find("import os, site, sys") != std::string::npos) said.clear();
      return absl::FailedPreconditionError(absl::StrCat(
          where,
          " does not work as a Python 3: ", said.empty() ? absl::StrCat("exit code ", result->exit_code) : said));
    }
    fields = absl::StrSplit(result->standard_output, '\0');
    if (fields.size() <= kFields) return absl::FailedPreconditionError(absl::StrCat(where, " is not a Python 3"));
    if (!file.empty()) {
      // If it can't be written, the next run asks again.
      std::error_code error;
      fs::create_directories(kept, error);
      WriteOutputFile(file, absl::StrCat(Stamp(fields[kLibraryField]), std::string(1, '\0'), result->standard_output))
          .IgnoreError();
    }
  }
  if (absl::Status status = CheckTraceable(where, fields[0], fields[1], fields[2]); !status.ok()) return status;
  PythonInfo info;
  info.version = fields[1];
  info.executable = fields[3];
  info.program = fields[4];
  info.uses_libpython = !fields[5].empty();
  info.libpython = fields[kLibraryField];
  info.user_site_folder = fields[7];
  info.site_folders.assign(fields.begin() + kFields, fields.end() - 1);
  info.argv0 = IsProgram(FileOf(python.path)) ? python.path : info.executable;
  return info;
}

absl::StatusOr<PythonInfo> FindAndAskPython(const std::string& option, const std::string& own_environment) {
  const absl::StatusOr<FoundPython> found = FindPython(option, own_environment);
  return found.ok() ? AskPython(*found) : found.status();
}

std::vector<std::string> PackageFolders(const PythonInfo& python, const std::vector<std::string>& python_args) {
  const bool isolated = HasFlag(python_args, 'I');
  const bool environment = !isolated && !HasFlag(python_args, 'E');
  std::vector<std::string> folders;
  if (const std::string path = environment ? Environment("PYTHONPATH") : ""; !path.empty()) {
    folders = absl::StrSplit(path, ':');
  }
  if (HasFlag(python_args, 'S')) return folders;
  const bool user_site =
      !isolated && !HasFlag(python_args, 's') && !(environment && !Environment("PYTHONNOUSERSITE").empty());
  if (user_site && !python.user_site_folder.empty()) folders.push_back(python.user_site_folder);
  folders.insert(folders.end(), python.site_folders.begin(), python.site_folders.end());
  return folders;
}

std::string PackageVersion(const std::string& package, const std::vector<std::string>& folders) {
  std::vector<std::string> added;
  for (const std::string& folder : folders) {
    const std::string version = VersionInFolder(package, folder.empty() ? "." : folder, &added);
    if (!version.empty()) return version;
  }
  // Folders that .pth files add come last; .pth files in them are ignored.
  std::vector<std::string> ignored;
  for (const std::string& folder : added) {
    const std::string version = VersionInFolder(package, folder, &ignored);
    if (!version.empty()) return version;
  }
  return "";
}

}  // namespace torchtrace
