# Environments for other pairs of Python and torch than .venv's, sourced behind setup.sh.
# shellcheck shell=bash

# shellcheck source=tools/lib/setup_python.sh
source "$ROOT/tools/lib/setup_python.sh"

# find_minor 3.12: a Python of that minor version: python3.12 on PATH, pyenv's, or the one that
# setup_python made.
find_minor() {
  local python
  for python in "$(command -v "python$1")" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python3 \
    "$BUILD_DIR/python/$1/bin/python3"; do
    # A shim of pyenv's answers with another version's, or not at all.
    if [[ -x $python ]] && [[ $("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) == "$1" ]]; then
      echo "$python"
      return
    fi
  done
  return 1
}

# setup_pair 3.12 2.15.0: an environment of that Python with that torch and what tests need,
# in the folder that pair_venv names.
pair_venv() { echo "$BUILD_DIR/venv/py$1-torch$2"; }
setup_pair() {
  local venv python torch
  venv=$(pair_venv "$1" "$2")
  [[ ! -f $venv/ready ]] || return 0
  find_minor "$1" >/dev/null || setup_python "$1"
  python=$(find_minor "$1") || die "setup: found no Python $1"
  say "setup: installing torch $2 for Python $1 into ${venv#"$ROOT/"}"
  logged "venv-$1-$2" "$python" -m venv --clear "$venv" || die "setup: could not make $venv"
  # Without what CUDA's build asks for: 3 GB that no test here uses.
  logged "pip-torch-$1-$2" "$venv/bin/python3" -m pip install --disable-pip-version-check --no-deps "torch==$2" ||
    die "setup: could not install torch $2 for Python $1"
  logged "pip-$1-$2" "$venv/bin/python3" -m pip install --disable-pip-version-check \
    -r "$ROOT/tools/requirements-pair.txt" || die "setup: could not install the packages of ${venv#"$ROOT/"}"
  torch=$(echo "$venv"/lib/python3*/site-packages/torch)
  logged "stub-$1-$2" "$python" "$ROOT/tools/lib/stub_cuda.py" "$torch" || die "setup: no stubs for $torch"
  logged "import-$1-$2" "$venv/bin/python3" -c 'import torch' || die "setup: torch $2 cannot be imported"
  touch "$venv/ready"
}

# installed_pairs: those whose environments are here, with commas between.
installed_pairs() {
  local ready
  for ready in "$BUILD_DIR"/venv/py*-torch*/ready; do
    [[ ! -f $ready ]] || basename "${ready%/ready}"
  done | sed 's/^py//; s/-torch/-/' | paste -sd,
}

# newest_pair: of the Pythons of tools/lib/pairs.txt that are here with headers, the last, and of
# the list's torches the newest that pip would install for it: what pip is set up to refuse here
# (a constraints file, an index without it) is not asked for.
newest_pair() {
  local minor torch python last=
  while read -r minor _; do
    [[ $minor == 3.* ]] && python=$(find_minor "$minor") &&
      "$python" -B "$ROOT/tools/bazel/describe_python.py" --embeddable 2>/dev/null && last=$minor
  done <"$ROOT/tools/lib/pairs.txt"
  [[ -n $last ]] || return
  python=$(find_minor "$last")
  while read -r torch; do
    if [[ -f $(pair_venv "$last" "$torch")/ready ]] ||
      "$python" -m pip install -q --disable-pip-version-check --dry-run --no-deps "torch==$torch" >/dev/null 2>&1; then
      echo "$last-$torch"
      return
    fi
  done < <(sed -n 's/^3[0-9.]* //p' "$ROOT/tools/lib/pairs.txt" | sort -rVu)
  echo "$last-$torch"
}
