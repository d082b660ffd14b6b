#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds the executable and, with sanitizers, the unit tests, runs every
# test and ends with the summary. Commands and documents are tested on the executable as it ships.
set -euo pipefail
cd "$(dirname "$0")/.."
bash tools/install_dependencies.sh
cmake --workflow --preset release
cmake --preset dev
cmake --build --preset dev
ctest --preset dev --parallel "$(nproc)"
