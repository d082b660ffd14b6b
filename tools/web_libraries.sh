#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts what preset `web` compiles beside this project into a folder: the sources of yaml-cpp from Debian's own source
# package, and the headers of those libraries that consist of headers. A cross compiler must not see /usr/include.
#
#   tools/web_libraries.sh [FOLDER]     # default: build/web-libraries; does nothing where all of it is there
#
# The settings of apt stay as they are: the list of source packages lies in the folder.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "${1:-build/web-libraries}")
[ -f "$folder/yaml-cpp/src/parser.cpp" ] && exit 0

missing=()
for package in emscripten dpkg-dev libcli11-dev libfmt-dev libboost-graph-dev nlohmann-json3-dev; do
  dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q 'install ok installed' || missing+=("$package")
done
as_root=()
if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
if [ ${#missing[@]} -gt 0 ]; then
  echo "+ ${as_root[*]} apt-get install -y ${missing[*]}" >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
fi

mirror=$(apt-get indextargets --format '$(SITE)' 'Codename: bookworm' 2> /dev/null | grep -v security | head -1)
[ -n "$mirror" ] || { echo "apt knows no mirror of bookworm (/etc/apt)" >&2; exit 2; }
mkdir -p "$folder/apt/lists/partial" "$folder/include"
keys=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb-src [signed-by=$keys] $mirror bookworm main" > "$folder/apt/sources.list"
apt=(apt-get -qq -o "Dir::Etc::sourcelist=$folder/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
     -o "Dir::State::lists=$folder/apt/lists")
"${apt[@]}" update >&2
(cd "$folder/apt" && "${apt[@]}" source yaml-cpp >&2)
for library in CLI fmt boost nlohmann; do ln -sfn "/usr/include/$library" "$folder/include/$library"; done
rm -rf "$folder/yaml-cpp"
mv "$folder"/apt/yaml-cpp-*/ "$folder/yaml-cpp"
