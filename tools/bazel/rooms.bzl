"""Rooms: a folder whose C++ files are one library, with their tests beside them.

Sources are found by name, so that a new file changes no BUILD file: `*_test.cc` are tests,
`*_fuzzer.cc` and `*_benchmark.cc` programs of their own, all else is the library's. What a room may
use is the table in docs/internals/DESIGN.md, which tools/check holds against the #include lines.
"""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")

# Of a library that is loaded into a program, others see what is marked in tracer/record/export.h.
# CPython's C structures are filled in field by field.
MODULE_COPTS = [
    "-fvisibility=hidden",
    "-Wno-missing-field-initializers",
    "-Wno-unused-parameter",
]

# For code that runs once a command, not once a call: it compiles faster.
SLOW_COPTS = ["-O1"]

# A wheel's own libraries are beside its modules, in lib/.
MODULE_LINKOPTS = [
    "-Wl,--disable-new-dtags",
    "-Wl,-rpath,'$$ORIGIN/lib'",
]

_PROGRAMS = [
    "*_test.cc",
    "*_benchmark.cc",
    "*_fuzzer.*",
]

# Most of a file's compile time goes into the templates of its headers, so up to so many files of a folder are compiled
# as one: names must differ between them, in unnamed namespaces too.
_FILES_PER_UNIT = 8

def _units(name, files, **kwargs):
    """Files that include `files`, several each: the sources of a rule.

    Args:
      name: of what they are made for; `NAME_files` is a library that lets a rule include the files.
      files: of this folder.
      **kwargs: of the rules.

    Returns:
      the sources.
    """
    count = (len(files) + _FILES_PER_UNIT - 1) // _FILES_PER_UNIT
    units = []
    for i in range(count):
        part = files[i * len(files) // count:(i + 1) * len(files) // count]
        units.append("%s_unit_%d.cc" % (name, i + 1))
        native.genrule(
            name = "%s_unit_%d" % (name, i + 1),
            outs = units[-1:],
            cmd = "printf '#include \"%s\"\\n' " + " ".join([native.package_name() + "/" + file for file in part]) + " > $@",
            **kwargs
        )
    cc_library(
        name = name + "_files",
        textual_hdrs = files,
        **kwargs
    )
    return units

def _room_name():
    return native.package_name().split("/")[-1]

def room(name = None, deps = [], srcs = [], exclude = [], testonly = False, **kwargs):
    """The library of a folder.

    Args:
      name: the folder's, if not given.
      deps: the rooms and packages that it uses.
      srcs: generated files that its sources include.
      exclude: files that belong to other targets of the folder.
      testonly: as of every rule.
      **kwargs: of cc_library.
    """
    name = name or _room_name()
    units = _units(name, native.glob(["*.cc"], exclude = _PROGRAMS + exclude), testonly = testonly)
    cc_library(
        name = name,
        srcs = units + srcs,
        hdrs = native.glob(["*.h"], exclude = _PROGRAMS + exclude),
        deps = deps + [":" + name + "_files"],
        testonly = testonly,
        **kwargs
    )

def room_headers(deps = [], exclude = []):
    """The headers of a folder, for modules whose process has the library already."""
    cc_library(
        name = "headers",
        hdrs = native.glob(["*.h"], exclude = _PROGRAMS + exclude),
        deps = deps,
    )

# Tests need no speed of their own. GCC 12 has false warnings of this kind about std::string.
_TEST_COPTS = [
    "-O1",
    "-Wno-array-bounds",
    "-Wno-restrict",
    "-Wno-stringop-overflow",
]

def room_tests(name = "tests", deps = [], files = ["*_test.cc"], exclude = [], shared_deps = None, copts = [], **kwargs):
    """The tests of a folder, as one program.

    Args:
      name: of the rule.
      deps: what the tests use beside the room itself.
      files: their sources, as patterns.
      exclude: tests that another target has.
      shared_deps: in place of the room, for tests of something that has no room() beside it.
      copts: of cc_test.
      **kwargs: of cc_test.
    """
    sources = native.glob(files, exclude = ["*_fuzz_test.cc"] + exclude)
    cc_test(
        name = name,
        srcs = _units(name, sources, testonly = True),
        copts = _TEST_COPTS + copts,
        deps = (shared_deps or [":" + _room_name()]) + deps + [
            ":" + name + "_files",
            "@googletest//:gtest_main",
        ],
        **kwargs
    )

def fuzzer(name, deps = [], data = []):
    """`NAME_fuzzer.cc` with libFuzzer, which brings main(), and `NAME_fuzz_test.cc`, which runs it on `data`."""
    cc_binary(
        name = name + "_fuzz",
        testonly = True,
        srcs = native.glob([name + "_fuzzer.*"]),
        tags = ["manual"],
        deps = [":" + _room_name()] + deps,
    )
    cc_test(
        name = name + "_fuzz_test",
        srcs = native.glob([name + "_fuzzer.*"]) + [name + "_fuzz_test.cc"],
        data = data,
        deps = [":" + _room_name()] + deps + [
            "//serialize/testing",
            "@googletest//:gtest_main",
        ],
    )

def api_names(name, api_list, more = []):
    """The names of a list of APIs, one a line, as a C++ string literal: `name`.inc.

    Before a name that isn't in all versions stands in which, and a blank.

    Args:
      name: of the rule.
      api_list: as `torchtrace apis scan` writes it: an entry is one line, its name and versions the first in it.
      more: files of further names.
    """
    native.genrule(
        name = name,
        srcs = [api_list] + more,
        outs = [name + ".inc"],
        cmd = "(printf 'R\"torchtrace('; " +
              "sed -n -e 's/^- {api: \\([^,}]*\\), versions: \"\\([^\"]*\\)\".*/\\2 \\1/p;t' " +
              "-e 's/^- {api: \\([^,}]*\\).*/\\1/p' $(location " + api_list + "); " +
              "".join(["cat $(location " + file + "); " for file in more]) + "printf ')torchtrace\"') > $@",
    )

def api_name_table(name, api_list, more = []):
    """The names of a list of APIs: a line with all names of an API, tabs between, a line for each operator; `name`.txt.

    Args:
      name: of the rule.
      api_list: as `torchtrace apis scan` writes it: an entry is one line.
      more: files of further names.
    """
    native.genrule(
        name = name,
        srcs = [api_list] + more,
        outs = [name + ".txt"],
        cmd = "(awk -v OFS='\\t' 'function list(key) { " +
              "if (!match($$0, key \": \\\\[[^]]*\")) return \"\"; " +
              "text = substr($$0, RSTART + length(key) + 3, RLENGTH - length(key) - 3); gsub(/, /, OFS, text); return text } " +
              "/^- [{]api: / { api = $$0; sub(/^- [{]api: /, \"\", api); sub(/[,}].*/, \"\", api); " +
              "print api, list(\"aliases\"), list(\"elsewhere\"); " +
              "operators = list(\"operators\"); gsub(OFS, \"\\n\", operators); if (operators) print operators }' " +
              "$(location " + api_list + "); " +
              "".join(["cat $(location " + file + "); " for file in more]) + ") | sort -u > $@",
    )

def embedded_text(name, srcs):
    """Texts as C++ string literals, one after the other: `name`.inc."""
    native.genrule(
        name = name,
        srcs = srcs,
        outs = [name + ".inc"],
        cmd = "for file in $(SRCS); do printf 'R\"torchtrace(' && cat $$file && printf ')torchtrace\"\\n'; done > $@",
    )
