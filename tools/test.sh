#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds the executable and its tests, runs every test and ends with the summary.
# Writes CPU seconds (user and system) into build/ci_seconds.txt: of the build of the executable, and of
# everything behind the installation. The test of budgets reads them in the next run.
set -euo pipefail
cd "$(dirname "$0")/.."
bash tools/install_dependencies.sh

mkdir -p build
clock=$(mktemp)
times > "$clock"
note_seconds() {  # NAME: of all commands since the first line of the clock
  times >> "$clock"
  awk -v name="$1" 'NR % 2 == 0 { sum = 0; for (i = 1; i <= 2; ++i) { split($i, part, /[ms]/); sum += 60 * part[1] + part[2] }
                                  if (NR == 2) first = sum }
                    END { printf "%s %.1f\n", name, sum - first }' "$clock" >> build/ci_seconds.new
}
finish() {
  note_seconds suite
  mv build/ci_seconds.new build/ci_seconds.txt
  rm -f "$clock"
}
: > build/ci_seconds.new
trap finish EXIT
werror=${CI:+-DPLANSEARCH_WERROR=ON}  # warnings end a run of CI
cmake --preset release $werror
cmake --build --preset release
note_seconds build
cmake --preset dev $werror
cmake --build --preset dev
ctest --preset dev --parallel "$(nproc)"
