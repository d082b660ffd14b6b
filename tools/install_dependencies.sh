#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what the build needs from Debian's packages; does nothing when all of it is there.
#
#   tools/install_dependencies.sh            # what the build needs
#   tools/install_dependencies.sh --tests    # ... and what tests need beyond it; without, they are skipped
set -euo pipefail

packages=(cmake ninja-build g++ libcli11-dev libyaml-cpp-dev libfmt-dev
          libboost-graph-dev libeigen3-dev doctest-dev nlohmann-json3-dev pybind11-dev zlib1g-dev libsqlite3-dev python3 python3-dev)
tests=(clang-format-14 nodejs openmpi-bin python3-distributed python3-jsonschema python3-pandas python3-yaml)
if [ "${1:-}" = --tests ]; then packages+=("${tests[@]}"); fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
export DEBIAN_FRONTEND=noninteractive
echo "+ ${as_root[*]} apt-get install -y --no-install-recommends ${missing[*]}" >&2
"${as_root[@]}" apt-get update -qq >&2
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
