#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds the executable and its tests, runs every test and ends with the summary.
set -euo pipefail
cd "$(dirname "$0")/.."
bash tools/install_dependencies.sh
cmake --preset dev ${CI:+-DPLANSEARCH_WERROR=ON}
cmake --build --preset dev
ctest --preset dev --parallel "$(nproc)"
