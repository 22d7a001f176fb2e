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

def _with_precompiled(header):
    """The copts and deps by which a file takes a precompiled header; none with clang (.bazelrc, fuzz)."""
    path = "$(BINDIR)/tools/bazel/precompiled/" + header + ".h"
    copts = PRECOMPILED_COPTS[header] + ["-fpch-deps", "-include", path]
    deps = ["//tools/bazel/precompiled:" + header]
    without = "//tools/bazel/precompiled:none"
    return (
        select({without: [], "//conditions:default": copts}),
        select({without: [], "//conditions:default": deps}),
    )

# A header is precompiled as the files are that include it. The command line runs once a command, not once a call, and
# tests need no speed of their own. GCC 12 has false warnings of this kind about std::string, and forgets in a
# precompiled header that its headers are the system's.
PRECOMPILED_COPTS = {
    "library": [],
    "command_line": ["-O1"],
    "tests": [
        "-O1",
        "-Wno-array-bounds",
        "-Wno-restrict",
        "-Wno-stringop-overflow",
    ],
}

def precompiled_header(name, includes = [], deps = [], **kwargs):
    """`NAME.cc`, which only includes, as a precompiled header.

    It is compiled as the files that include it are, so GCC takes it; where it doesn't, it reads the header itself.

    Args:
      name: of the rule.
      includes: files beside it that it includes.
      deps: the packages of the headers.
      **kwargs: of all rules that it makes.
    """
    cc_library(
        name = name + "_compiled",
        srcs = [name + ".cc"],
        copts = PRECOMPILED_COPTS[name] + ["-x", "c++-header"],
        textual_hdrs = includes,
        deps = deps,
        **kwargs
    )
    native.filegroup(
        name = name + "_archive",
        srcs = [":" + name + "_compiled"],
        output_group = "archive",
        **kwargs
    )

    # The archive doesn't contain an object file.
    native.genrule(
        name = name + "_files",
        srcs = [
            name + ".cc",
            ":" + name + "_archive",
        ],
        outs = [
            name + ".h",
            name + ".h.gch",
        ],
        cmd = "cp $(location " + name + ".cc) $(location " + name + ".h) && " +
              "ar p $(location :" + name + "_archive) > $(location " + name + ".h.gch)",
        **kwargs
    )
    cc_library(
        name = name,
        textual_hdrs = [":" + name + "_files", name + ".cc"] + includes,
        **kwargs
    )

def _room_name():
    return native.package_name().split("/")[-1]

def room(name = None, deps = [], srcs = [], exclude = [], copts = None, precompiled = "library", testonly = False, **kwargs):
    """The library of a folder.

    Args:
      name: the folder's, if not given.
      deps: the rooms and packages that it uses.
      srcs: generated files that its sources include.
      exclude: files that belong to other targets of the folder.
      copts: what GCC must not take a precompiled header with.
      precompiled: the precompiled header, if there are no copts.
      testonly: as of every rule.
      **kwargs: of cc_library.
    """
    name = name or _room_name()
    precompiled_copts, precompiled_deps = _with_precompiled(precompiled)
    units = _units(name, native.glob(["*.cc"], exclude = _PROGRAMS + exclude), testonly = testonly)
    cc_library(
        name = name,
        srcs = units + srcs,
        hdrs = native.glob(["*.h"], exclude = _PROGRAMS + exclude),
        copts = copts or precompiled_copts,
        deps = deps + [":" + name + "_files"] + ([] if copts else precompiled_deps),
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

def room_tests(name = "tests", deps = [], files = ["*_test.cc"], exclude = [], copts = None, **kwargs):
    """The tests of a folder, as one program.

    Args:
      name: of the rule.
      deps: what the tests use beside the room itself.
      files: their sources, as patterns.
      exclude: tests that another target has.
      copts: as of room().
      **kwargs: of cc_test.
    """
    precompiled_copts, precompiled_deps = _with_precompiled("tests")
    sources = native.glob(files, exclude = ["*_fuzz_test.cc"] + exclude)
    cc_test(
        name = name,
        srcs = _units(name, sources, testonly = True),
        copts = copts or precompiled_copts,
        deps = [":" + _room_name()] + deps + [
            ":" + name + "_files",
            "@googletest//:gtest_main",
        ] + ([] if copts else precompiled_deps),
        **kwargs
    )

def fuzzer(name, deps = [], data = []):
    """`NAME_fuzzer.cc` with libFuzzer, which brings main(), and `NAME_fuzz_test.cc`, which runs it on `data`."""
    deps = [":" + _room_name()] + deps + ["//serialize/testing"]
    cc_binary(
        name = name + "_fuzz",
        testonly = True,
        srcs = native.glob([name + "_fuzzer.*"]),
        tags = ["manual"],
        deps = deps + ["@googletest//:gtest"],
    )
    cc_test(
        name = name + "_fuzz_test",
        srcs = native.glob([name + "_fuzzer.*"]) + [name + "_fuzz_test.cc"],
        data = data,
        deps = deps + ["@googletest//:gtest_main"],
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
