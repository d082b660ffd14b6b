#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, and ends with the ranked plans of GPT-2 XL on Perlmutter.
set -euo pipefail
cd "$(dirname "$0")/.."
bash tools/install_dependencies.sh
cmake --workflow --preset release >&2
exec ./build/release/plansearch --hw perlmutter.yaml --model gpt2-xl "$@"
