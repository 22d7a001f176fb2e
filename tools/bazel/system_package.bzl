"""system_package: a library that the distribution installs, as an external repository.

The repository holds links to the library's headers, so that Bazel sees when they
change. They are included as `<absl/...>` from the compiler's own path: adding
/usr/include to the include path would reorder the system's headers.
"""

def _impl(ctx):
    for path in ctx.attr.paths:
        if not ctx.path(path).exists:
            fail("%s is missing: sudo apt-get install %s" % (path, ctx.attr.debian_package))
        ctx.symlink(path, path.split("/")[-1])
    ctx.symlink(ctx.attr.build_file, "BUILD")

system_package = repository_rule(
    implementation = _impl,
    attrs = {
        "build_file": attr.label(mandatory = True, allow_single_file = True),
        "debian_package": attr.string(mandatory = True),
        "paths": attr.string_list(mandatory = True),
    },
    local = True,
)
