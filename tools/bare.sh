#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the two commands of README.md where nothing is installed: a fresh Debian 12 root with a clean
# clone of this checkout's HEAD in it. Needs root and debootstrap; packages come from the mirror
# that apt uses here.
#
#   tools/bare.sh [FOLDER]     # keeps the root in FOLDER; without one it is removed at the end
set -euo pipefail
cd "$(dirname "$0")/.."

[ "$(id -u)" -eq 0 ] || { echo "tools/bare.sh needs root: chroot and debootstrap do" >&2; exit 2; }
command -v debootstrap > /dev/null || { echo "debootstrap is missing: apt-get install debootstrap" >&2; exit 2; }
mirror=$(apt-get indextargets --format '$(SITE)' 'Codename: bookworm' 2> /dev/null | grep -v security | head -1)
[ -n "$mirror" ] || { echo "apt knows no mirror of bookworm (/etc/apt)" >&2; exit 2; }

root=${1:-$(mktemp -d)}
log=
finish() {
  rm -f "$log"
  umount -R "$root/proc" "$root/dev" 2> /dev/null || true
  [ $# -gt 0 ] && [ -n "$1" ] || rm -rf "$root"
}
trap 'finish "${1:-}"' EXIT
echo "+ debootstrap bookworm $root" >&2
log=$(mktemp)
debootstrap --variant=minbase bookworm "$root" "$mirror" > "$log" 2>&1 || { tail -5 "$log" >&2; exit 1; }
# Settings of apt that reach the mirror from here (a proxy, certificates) hold inside too.
cp -a /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/"
cp -aL /etc/ssl/certs "$root/etc/ssl/" 2> /dev/null || true
echo "127.0.0.1 localhost" > "$root/etc/hosts"  # as on every installed machine; tests talk over it
cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2> /dev/null || true
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev" && mount --make-rslave "$root/dev"
git clone --quiet --no-local . "$root/root/plansearch"

status=0
for command in tools/quickstart.sh tools/test.sh; do
  begin=$SECONDS
  code=0
  chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin bash "/root/plansearch/$command" || code=$?
  echo "bash $command: exit $code after $(((SECONDS - begin) / 60)) min $(((SECONDS - begin) % 60)) s"
  [ "$code" -eq 0 ] || status=1
done
exit $status
