#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Formatting of every C++ source, and with --tidy the checks of .clang-tidy: some seconds per source.
#
#   tools/check_style.sh                              # clang-format only, a few seconds
#   tools/check_style.sh --fix                        # ... and rewrite what differs
#   tools/check_style.sh --tidy BUILD [SOURCE...]     # all sources of BUILD/compile_commands.json, or these
set -euo pipefail
cd "$(dirname "$0")/.."

# Version 14, as Debian 12 ships it: other versions format differently.
tool() {
  command -v "$1-14" || { echo "$1-14 is missing: apt-get install $1-14" >&2; exit 2; }
}

format=$(tool clang-format)
mode=(--dry-run --Werror)
[ "${1:-}" = --fix ] && mode=(-i)
git ls-files -z '*.cpp' '*.hpp' | xargs -0 "$format" "${mode[@]}"

if [ "${1:-}" = --tidy ]; then
  build=${2:?the folder of a configured build}
  tidy=$(tool clang-tidy)
  shift 2
  if [ $# -gt 0 ]; then sources=("$@"); else mapfile -t sources < <(git ls-files '*.cpp'); fi
  # g++ knows a warning that clang does not.
  printf '%s\0' "${sources[@]}" |
    xargs -0 -n 4 -P "${JOBS:-$(nproc)}" "$tidy" -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option
fi
