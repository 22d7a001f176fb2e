# A CPython that this Debian does not have, sourced behind setup.sh: out of the packages of a newer one, which run on
# that one's C library, beside this system's.
# shellcheck shell=bash

# The Debian that has it, by minor version of Python.
_suite_of() {
  case $1 in
    3.14) echo forky ;;
    *) return 1 ;;
  esac
}

# setup_python 3.14: that Python in .build/python/3.14, for the holder of the setup lock. apt checks the signatures and
# checksums of what it fetches; nothing is installed into the system but patchelf.
setup_python() {
  local suite prefix=$BUILD_DIR/python/root-$1 apt libraries package
  suite=$(_suite_of "$1") || return
  say "setup: fetching Python $1 from Debian $suite into ${prefix#"$ROOT/"}"
  setup_packages "patchelf /usr/bin/patchelf"
  rm -rf "$prefix"
  mkdir -p "$prefix"/apt/{lists,cache}
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main" \
    >"$prefix/apt/sources.list"
  apt=(-o "Dir::Etc::SourceList=$prefix/apt/sources.list" -o Dir::Etc::SourceParts=-
    -o "Dir::State::Lists=$prefix/apt/lists" -o "Dir::Cache=$prefix/apt/cache" -o Dir::State::Status=/dev/null
    -o APT::Sandbox::User=root)
  logged "python-$1-update" apt-get "${apt[@]}" update || return
  # Without libpython: a program of this system can't load it, and the interpreter has all of it inside.
  (cd "$prefix/apt" && logged "python-$1-download" apt-get "${apt[@]}" download libc6 libexpat1 libssl3t64 python3-pip-whl \
    "python$1" "python$1-"{dev,minimal,venv} "libpython$1-"{dev,minimal,stdlib}) || return
  for package in "$prefix"/apt/*.deb; do
    dpkg-deb -x "$package" "$prefix" || return
  done
  rm -rf "$prefix/apt"
  libraries=$prefix/usr/lib/$(gcc -print-multiarch) || return
  patchelf --set-interpreter "$libraries/ld-linux-x86-64.so.2" --force-rpath --set-rpath "$libraries" \
    "$prefix/usr/bin/python$1" || return
  # What it has by names in the system's folders.
  sed -i "s|/usr/share/python-wheels|$prefix&|" "$prefix/usr/lib/python$1"/_sysconfig{data,_vars}_*
  cp "$prefix/usr/include/$(gcc -print-multiarch)/python$1/pyconfig.h" "$prefix/usr/include/python$1/pyconfig.h"
  ln -s "python$1" "$prefix/usr/bin/python3"
  ln -sfn "root-$1/usr" "$BUILD_DIR/python/$1"
}
