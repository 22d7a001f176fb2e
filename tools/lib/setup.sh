# What tools/torchtrace, tools/test and tools/check share: they source this file.
# It finds or installs what the build needs (Debian packages, .venv), builds, and
# installs the results into .build/. Each setup_* function does nothing when there is
# nothing to do. The caller may set FAIL_STATUS, the exit code for "could not set up".
# shellcheck shell=bash disable=SC2034

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
BUILD_DIR=$ROOT/.build
VENV=$ROOT/.venv
LOG_DIR=$BUILD_DIR/log
FAIL_STATUS=2

# Package and a file by which it is known to be there.
BUILD_PACKAGES="
bazel-bootstrap      /usr/bin/bazel
bazel-rules-java     /usr/share/bazel/rules/java
bazel-rules-proto    /usr/share/bazel/rules/proto
g++                  /usr/bin/g++
libabsl-dev          /usr/include/absl
libbenchmark-dev     /usr/include/benchmark
libcli11-dev         /usr/include/CLI
libgmock-dev         /usr/include/gmock
libgtest-dev         /usr/include/gtest
libxxhash-dev        /usr/include/xxhash.h
libyaml-cpp-dev      /usr/include/yaml-cpp
nlohmann-json3-dev   /usr/include/nlohmann
zlib1g-dev           /usr/include/zlib.h
"
CHECK_PACKAGES="
git                  /usr/bin/git
shellcheck           /usr/bin/shellcheck
"
# Debian's own g++ for aarch64 goes by this name too.
AARCH64_PACKAGES="
g++-aarch64-linux-gnu /usr/bin/aarch64-linux-gnu-g++
"
FUZZ_PACKAGES="
clang-19             /usr/bin/clang-19
libclang-rt-19-dev   /usr/lib/llvm-19/lib/clang/19/lib/linux/libclang_rt.fuzzer-$(uname -m).a
"
TEST_PACKAGES="
npm                  /usr/bin/npm
"

# For tests of pages.
BROWSER_PACKAGES="
chromium             /usr/bin/chromium
fonts-dejavu-core    /usr/share/fonts/truetype/dejavu
"

say() {
  printf 'torchtrace: %s\n' "$*" >&2
}

die() {
  say "$*"
  exit "$FAIL_STATUS"
}

# logged NAME COMMAND...: runs the command with its output in .build/log/NAME.log, and
# shows the end of that if it fails.
logged() {
  local log=$LOG_DIR/$1.log
  shift
  mkdir -p "$LOG_DIR"
  if ! "$@" >"$log" 2>&1 </dev/null; then
    tail -n 40 "$log" >&2
    say "setup: failed: $*"
    say "setup: the whole output: $log"
    return 1
  fi
}

# _lock DESCRIPTOR NAME: waits until no other process of this checkout holds the lock.
# Held until unlocked or this process ends; bazel() says why it stays in this process.
_lock() {
  mkdir -p "$BUILD_DIR" || die "setup: cannot write to $BUILD_DIR"
  eval "exec $1>\"\$BUILD_DIR/$2.lock\""
  if ! flock -n "$1"; then
    say "setup: waiting for another torchtrace $2"
    flock "$1"
  fi
}

# While packages and .venv change. Where both are held, the build's is taken first.
lock_setup() { _lock 9 setup; }
unlock_setup() { exec 9>&-; }

# While something is built and installed into .build.
lock_build() { _lock 8 build; }
unlock_build() { exec 8>&-; }

# as_root COMMAND...: runs it as root, by sudo if need be. Returns 77 where that is not
# possible.
as_root() {
  if [[ $EUID -eq 0 ]]; then
    "$@"
  elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 && -t 2 ]]; }; then
    [[ -t 0 && -t 2 ]] && sudo -v
    sudo -n "$@"
  else
    return 77
  fi
}

# setup_packages LIST: installs those Debian packages of LIST whose file is missing.
setup_packages() {
  local package file missing=()
  while read -r package file; do
    [[ -z $package || -e $file ]] || missing+=("$package")
  done <<<"$1"
  [[ ${#missing[@]} -gt 0 ]] || return 0

  local command="apt-get install -y --no-install-recommends ${missing[*]}"
  if ! command -v apt-get >/dev/null; then
    die "setup: this is not Debian; install what these packages contain: ${missing[*]}"
  fi
  if ! as_root true; then
    say "setup: packages are missing and this user may not install them; type:"
    die "  sudo apt-get update && sudo $command"
  fi
  say "setup: installing ${missing[*]}"
  # An out of date list still installs most of the time, so a failed update isn't the end.
  logged apt-update as_root apt-get update || true
  # shellcheck disable=SC2086  # words of a command made above
  logged apt-install as_root env DEBIAN_FRONTEND=noninteractive $command ||
    die "setup: could not install; type: sudo apt-get update && sudo $command"
}

# The Python to make .venv with: one that a program can embed.
find_base_python() {
  local python
  for python in "$(command -v python3)" /usr/bin/python3; do
    if [[ -x $python ]] && "$python" -c 'import ensurepip, venv' 2>/dev/null &&
      "$python" -B "$ROOT/tools/bazel/describe_python.py" --embeddable 2>/dev/null; then
      echo "$python"
      return
    fi
  done
  return 1
}

venv_has() {
  compgen -G "$VENV/lib/python3*/site-packages/$1-*.dist-info" >/dev/null
}

pip_install() {
  local name=$1
  shift
  logged "$name" "$VENV/bin/python3" -m pip install --disable-pip-version-check "$@" ||
    die "setup: could not install; type: $VENV/bin/python3 -m pip install $*"
}

# .venv without anything in it yet.
make_venv() {
  if [[ ! -x $VENV/bin/python3 ]] || ! "$VENV/bin/python3" -c 'import pip' 2>/dev/null; then
    local python
    if ! python=$(find_base_python); then
      setup_packages "
        python3       /usr/bin/python3
        python3-dev   /usr/bin/python3-config
        python3-venv  /usr/share/doc/python3-venv"
      python=$(find_base_python) ||
        die "setup: found no python3 with headers, a shared libpython and venv"
    fi
    say "setup: making .venv with $python"
    logged venv "$python" -m venv "$VENV" || die "setup: could not make $VENV"
  fi
}

# .venv with torch: any torch that is there already is taken.
setup_venv() {
  make_venv
  if ! venv_has torch || ! venv_has numpy; then
    say "setup: installing torch into .venv (some minutes the first time)"
    pip_install pip-torch -r "$ROOT/tools/requirements.txt"
  fi
}

# pyarrow in .venv, any that is there already, for Parquet alone.
setup_pyarrow() {
  make_venv
  venv_has pyarrow && return
  say "setup: installing pyarrow into .venv, for Parquet"
  pip_install pip-pyarrow -r "$ROOT/tools/requirements-parquet.txt"
}

# What only tests and checks need, in .venv and .build/node.
setup_test_env() {
  local stamp=$BUILD_DIR/test-env wanted
  wanted=$(cat "$ROOT"/tools/requirements-{parquet,test,hta}.txt && ls -d "$VENV"/lib/python3*)
  if [[ ! -f $stamp || $(<"$stamp") != "$wanted" ]] || ! venv_has pytest; then
    say "setup: installing Python packages for the tests into .venv"
    pip_install pip-test -r "$ROOT/tools/requirements-test.txt"
    pip_install pip-hta --no-deps -r "$ROOT/tools/requirements-hta.txt"
    printf '%s\n' "$wanted" >"$stamp"
  fi
  setup_node
}

# PaddlePaddle, in an environment without torch: what the tests of its dialect trace.
PADDLE_VENV=$BUILD_DIR/venv/paddle
setup_paddle() {
  local stamp=$PADDLE_VENV/requirements wanted=$ROOT/tools/requirements-paddle.txt
  cmp -s "$wanted" "$stamp" && return
  say "setup: installing PaddlePaddle into ${PADDLE_VENV#"$ROOT/"} for the tests"
  # Of the Python that .venv is of, for which the runtime is built.
  logged venv-paddle "$VENV/bin/python3" -m venv "$PADDLE_VENV" || die "setup: could not make $PADDLE_VENV"
  local install=("$PADDLE_VENV/bin/python3" -m pip install --disable-pip-version-check -r "$wanted")
  logged pip-paddle "${install[@]}" || die "setup: could not install; type: ${install[*]}"
  cp "$wanted" "$stamp"
}

# Packages whose tests tools/fidelity runs, beside .venv's torch; linear-operator's tests are in its source alone.
FIDELITY_VENV=$BUILD_DIR/venv/fidelity
FIDELITY_SOURCES=$BUILD_DIR/fidelity/sources
setup_fidelity() {
  local stamp=$FIDELITY_VENV/requirements wanted=$ROOT/tools/requirements-fidelity.txt
  cmp -s "$wanted" "$stamp" && return
  say "setup: installing packages with tests into ${FIDELITY_VENV#"$ROOT/"}"
  logged venv-fidelity "$VENV/bin/python3" -m venv --clear "$FIDELITY_VENV" || die "setup: could not make $FIDELITY_VENV"
  local site pip=("$FIDELITY_VENV/bin/python3" -m pip --disable-pip-version-check) source
  for site in "$FIDELITY_VENV"/lib/python3*/site-packages; do
    echo "$VENV/lib/$(basename "$(dirname "$site")")/site-packages" >"$site/torch.pth"
  done
  logged pip-fidelity "${pip[@]}" install --no-deps -r "$wanted" || die "setup: could not install the packages of $wanted"
  source=$(sed -n '/^linear-operator==/p' "$wanted")
  mkdir -p "$FIDELITY_SOURCES"
  if ! logged download-fidelity "${pip[@]}" download --no-deps --no-binary :all: -d "$FIDELITY_SOURCES" "$source" ||
    ! tar -C "$FIDELITY_SOURCES" -xzf "$FIDELITY_SOURCES"/linear_operator-*.tar.gz; then
    die "setup: could not get the source of $source"
  fi
  cp "$wanted" "$stamp"
}

BUILDIFIER_VERSION=8.2.1
BUILDIFIER=$BUILD_DIR/node/node_modules/.bin/buildifier
# Checks programs that use the package (python/read_test.py).
PYRIGHT_VERSION=1.1.414
setup_node() {
  local stamp=$BUILD_DIR/node/version versions="$BUILDIFIER_VERSION $PYRIGHT_VERSION"
  [[ -x $BUILDIFIER && -f $stamp && $(<"$stamp") == "$versions" ]] && return
  command -v npm >/dev/null || setup_packages "$TEST_PACKAGES"
  say "setup: installing buildifier and pyright into .build/node"
  mkdir -p "$BUILD_DIR/node"
  # Its cache stays here as well: the home folder may be missing or read only.
  logged npm npm install --prefix "$BUILD_DIR/node" --cache "$BUILD_DIR/node/cache" \
    --no-audit --no-fund --no-save "@bazel/buildifier@$BUILDIFIER_VERSION" "pyright@$PYRIGHT_VERSION" ||
    die "setup: could not install buildifier and pyright with npm"
  echo "$versions" >"$stamp"
}

# bazel [STARTUP_OPTION...] COMMAND...: in the checkout, never holding a lock: the
# server that it leaves behind would hold it for hours.
bazel() {
  (
    cd "$ROOT" || exit
    exec /usr/bin/bazel \
      ${TORCHTRACE_BAZEL_ROOT:+--output_user_root="$TORCHTRACE_BAZEL_ROOT"} "$@" 8>&- 9>&-
  )
}

pair_key() {
  "$1" -B "$ROOT/tools/bazel/describe_python.py" --key
}

# install_file FROM TO: by rename, so that who runs or loads the old one keeps it.
install_file() {
  [[ -e $1 ]] || die "setup: the build made no $1"
  cmp -s "$1" "$2" && return
  mkdir -p "$(dirname "$2")"
  if ! { cp "$1" "$2.new.$$" && chmod 755 "$2.new.$$" && mv -f "$2.new.$$" "$2"; }; then
    die "setup: cannot write $2"
  fi
}

# A product is up to date when no source is newer than its stamp. The stamp is taken
# before the build, so that an edit while it runs counts as newer.
is_fresh() {
  local stamp=$BUILD_DIR/stamp/$1
  shift
  [[ -f $stamp ]] || return 1
  local newer
  newer=$(cd "$ROOT" && find cmd dialects python replay serialize tracer tools/bazel tools/lib/setup.sh \
    .bazelrc BUILD WORKSPACE "$@" \
    -name __pycache__ -prune -o -newer "$stamp" -print -quit 2>&1) && [[ -z $newer ]]
}

exe_is_fresh() {
  [[ -x $BUILD_DIR/bin/torchtrace && -f $VERBS_LIBRARY && -f $PRELOAD_LIBRARY && -f $FISH_COMPLETIONS ]] && is_fresh exe
}

# A KEY is py3.11-torch2.13: of the runtime for that minor version of Python, and of the
# module for that era of torch beside it.
runtime_of() { echo "$BUILD_DIR/runtime/${1%-torch*}"; }
module_of() { echo "$(runtime_of "$1")/torchtrace_torch-${1#*-torch}.so"; }

python_part_is_fresh() {
  local runtime
  runtime=$(runtime_of "$1")
  [[ -f $runtime/libtorchtrace_runtime.so && -f $runtime/torchtrace_native.so ]] &&
    is_fresh "${1%-torch*}"
}

# runtime_is_fresh KEY [FILE...]: both parts, given files that they depend on.
runtime_is_fresh() {
  [[ -f $(module_of "$1") ]] && python_part_is_fresh "$1" && is_fresh "$@"
}

# The key of .venv is in .build/default-key, and holds while torch's files are older than
# its stamp.
default_runtime_is_fresh() {
  local key
  [[ -f $BUILD_DIR/default-key ]] && key=$(<"$BUILD_DIR/default-key") &&
    runtime_is_fresh "$key" "$VENV/pyvenv.cfg" "$VENV"/lib/python3*/site-packages/torch/version.py
}

_stamp() {
  mkdir -p "$BUILD_DIR/stamp"
  touch "$BUILD_DIR/stamp/$1.new"
}

_stamp_done() {
  mv -f "$BUILD_DIR/stamp/$1.new" "$BUILD_DIR/stamp/$1"
}

# With the verbs as a library, for Pythons to load, and the one that brings them into a
# Python's own program.
EXE_TARGETS=(//cmd:torchtrace //cmd:torchtrace_verbs //cmd/run:torchtrace_preload)
VERBS_LIBRARY=$BUILD_DIR/lib/torchtrace/libtorchtrace_verbs.so
PRELOAD_LIBRARY=$BUILD_DIR/lib/torchtrace/libtorchtrace_preload.so
SHARE=$BUILD_DIR/share
FISH_COMPLETIONS=$SHARE/fish/vendor_completions.d/torchtrace.fish
_install_exe() {
  local exe=$BUILD_DIR/bin/torchtrace
  install_file "$1/cmd/torchtrace" "$exe"
  install_file "$1/cmd/libtorchtrace_verbs.so" "$VERBS_LIBRARY"
  install_file "$1/cmd/run/libtorchtrace_preload.so" "$PRELOAD_LIBRARY"
  # Its manual and completions, where man and shells look for them below a prefix's share/.
  mkdir -p "$SHARE"/{man/man1,bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
  "$exe" help --man >"$SHARE/man/man1/torchtrace.1"
  "$exe" completions bash >"$SHARE/bash-completion/completions/torchtrace"
  "$exe" completions zsh >"$SHARE/zsh/site-functions/_torchtrace"
  "$exe" completions fish >"$FISH_COMPLETIONS"
}

# _install_runtime BIN KEY: what lies in BIN was built after the stamps were taken.
_install_runtime() {
  local runtime python=${2%-torch*} module
  runtime=$(runtime_of "$2")
  # Any pair's build makes this part alike.
  if ! python_part_is_fresh "$2"; then
    # Modules of older sources must not meet it.
    for module in "$runtime"/torchtrace_torch-*.so; do
      [[ ! -e $module ]] || rm -f "$module"
    done
    install_file "$1/tracer/libtorchtrace_runtime.so" "$runtime/libtorchtrace_runtime.so"
    install_file "$1/python/libtorchtrace_native.so" "$runtime/torchtrace_native.so"
    _install_package "$runtime/torchtrace"
    _stamp_done "$python"
  fi
  install_file "$1/dialects/torch/libtorchtrace_torch.so" "$(module_of "$2")"
  _stamp_done "$2"
}

_stamp_runtime() {
  _stamp "${1%-torch*}"
  _stamp "$1"
}

# The Python package, and no file that is no longer part of it.
_install_package() {
  local file
  for file in "$1"/*.py "$1"/*.pyi; do
    [[ ! -e $file || -e $ROOT/python/torchtrace/${file##*/} ]] || rm -f "$file"
  done
  for file in "$ROOT"/python/torchtrace/{*.py,*.pyi,py.typed}; do
    install_file "$file" "$1/${file##*/}"
  done
  install_file "$ROOT/dialects/torch/common/api_names.py" "$1/_torch_names.py"
  for file in names arguments program; do
    install_file "$ROOT/replay/$file.py" "$1/_replay/$file.py"
  done
}

PYTHON_TARGETS=(//tracer:torchtrace_runtime //python:torchtrace_native)
TORCH_TARGET=//dialects/torch:torchtrace_torch

# build_default exe|all: the executable, with all the runtime for .venv too.
build_default() {
  local targets=("${EXE_TARGETS[@]}") key=
  lock_setup
  setup_packages "$BUILD_PACKAGES"
  [[ $1 != all ]] || setup_venv
  unlock_setup
  _stamp exe
  if [[ $1 == all ]]; then
    key=$(pair_key "$VENV/bin/python3") || die "setup: $VENV/bin/python3 does not run"
    targets+=("${PYTHON_TARGETS[@]}" "$TORCH_TARGET")
    _stamp_runtime "$key"
  fi
  say "setup: building ${key:-the executable}"
  # The links bazel-* are of whatever was built last, so the folder is asked for.
  local bin
  logged build bazel build --curses=no --noshow_progress "${targets[@]}" ||
    die "setup: the build failed"
  bin=$(bazel info bazel-bin 2>/dev/null) || die "setup: bazel does not say where it built"
  _install_exe "$bin"
  _stamp_done exe
  if [[ -n $key ]]; then
    _install_runtime "$bin" "$key"
    echo "$key" >"$BUILD_DIR/default-key"
  fi
}

# build_pair PYTHON KEY HEADERS TARGET...: for another Python, in an output base of its own so
# that the default build stays as it is; PAIR_BIN is where. HEADERS: a folder that
# torch_headers.py made, in place of the torch that PYTHON has; may be empty.
build_pair() {
  local python key=$2 headers=$3 base links=.build/pair/$2/ status=0
  # Bazel runs it in another folder, where a relative path or a launcher that goes by the
  # folder would mean another Python.
  python=$("$1" -c 'import sys; print(sys.executable)') || die "setup: $1 does not run"
  shift 3
  base=$(bazel info output_base 2>/dev/null) || die "setup: bazel does not start"
  logged "build-$key" bazel --output_base="$base-$key" build --curses=no --noshow_progress \
    "--repo_env=PYTHON_BIN_PATH=$python" "--repo_env=PYTHONPATH=$headers" "--symlink_prefix=$links" "$@" || status=1
  [[ $status -ne 0 ]] || PAIR_BIN=$(cd "$ROOT/${links}bin" && pwd -P) || status=1
  # The other server has nothing more to do.
  bazel --output_base="$base-$key" shutdown 2>/dev/null
  [[ $status -eq 0 ]] || die "setup: the build failed"
}

# build_runtime PYTHON KEY [HEADERS]: as build_pair.
build_runtime() {
  local python=$1 key=$2 headers=${3:-}
  lock_setup
  setup_packages "$BUILD_PACKAGES"
  unlock_setup
  PYTHONPATH=$headers "$python" -B "$ROOT/tools/bazel/describe_python.py" >/dev/null ||
    die "setup: cannot build a runtime for $python"
  local targets=("$TORCH_TARGET")
  python_part_is_fresh "$key" || targets+=("${PYTHON_TARGETS[@]}")
  say "setup: building $key"
  _stamp_runtime "$key"
  build_pair "$python" "$key" "$headers" "${targets[@]}"
  _install_runtime "$PAIR_BIN" "$key"
}
