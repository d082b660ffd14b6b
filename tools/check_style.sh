#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Formatting of every C++ source, or with --tidy the checks of .clang-tidy, some seconds per source.
# Exit status 77 where the tool is not installed.
#
#   tools/check_style.sh                              # clang-format, a few seconds
#   tools/check_style.sh --fix                        # ... and rewrite what differs
#   tools/check_style.sh --tidy BUILD [SOURCE...]     # all sources of BUILD/compile_commands.json, or these
set -euo pipefail
cd "$(dirname "$0")/.."

# Version 14, as Debian 12 ships it: other versions format differently.
tool() {
  command -v "$1-14" || { echo "$1-14 is missing: apt-get install $1-14" >&2; exit 77; }
}
sources() {
  find include src search tests benchmarks -name '*.cpp' -print0 "$@"
}

case "${1:-}" in
  --tidy)
    build=${2:?the folder of a configured build}
    shift 2
    tidy=$(tool clang-tidy)
    # g++ knows a warning that clang does not.
    if [ $# -gt 0 ]; then printf '%s\0' "$@"; else sources; fi |
      xargs -0 -n 4 -P "${JOBS:-$(nproc)}" "$tidy" -p "$build" --quiet \
        --extra-arg=-Wno-unknown-warning-option
    ;;
  --fix | "")
    format=$(tool clang-format)
    mode=(--dry-run --Werror)
    [ "${1:-}" = --fix ] && mode=(-i)
    sources -o -name '*.hpp' -print0 | xargs -0 "$format" "${mode[@]}"
    ;;
  *)
    echo "usage: tools/check_style.sh [--fix | --tidy BUILD [SOURCE...]]" >&2
    exit 2
    ;;
esac
