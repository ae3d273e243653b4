#!/usr/bin/env bash
# The checks that need more than Go and make: the race detector (a C compiler), the shells that run the
# shell texts of tools, and the browser that shows the page of a trace. `make test` skips the last two
# where they are missing. This script installs what is missing if apt can, and names it if not.
set -euo pipefail
cd "$(dirname "$0")/.."

need() { # need COMMAND PACKAGE
  command -v "$1" >/dev/null && return
  if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    apt-get install -y -qq "$2" >/dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq "$2" >/dev/null; }
  fi
  command -v "$1" >/dev/null || { echo "check-extra: $1 is missing (package $2)" >&2; exit 1; }
}

need gcc gcc
need bash bash
need dash dash
need zsh zsh
need fish fish
need groff groff
need man man-db
need jq jq
make race
CGO_ENABLED=0 go test -count=1 -run 'Shell' ./tools
CGO_ENABLED=0 go test -count=1 -run "TestScript/(completion|man|page|workflow)" ./cmd/jp

# A release: the same bytes twice, and a package that dpkg takes and that runs.
need dpkg-deb dpkg
need git git
if [ -z "$(git status --porcelain)" ]; then
  once=$(mktemp -d)
  PLATFORMS=linux/$(go env GOARCH) scripts/release.sh >"$once/first"
  PLATFORMS=linux/$(go env GOARCH) scripts/release.sh >"$once/second"
  cmp "$once/first" "$once/second"
  dpkg-deb -x dist/*.deb "$once/root"
  "$once/root/usr/bin/jp" --version >/dev/null
  man -l "$once/root/usr/share/man/man1/jp.1.gz" >/dev/null
  rm -r "$once"
else
  echo "check-extra: the release was NOT checked: there are changes that are not committed" >&2
fi

for browser in chromium chromium-browser google-chrome; do
  command -v "$browser" >/dev/null && break
done
command -v "$browser" >/dev/null || { need chromium chromium && browser=chromium; }
JP_BROWSER=$browser CGO_ENABLED=0 go test -count=1 -run Browser ./cmd/jp/internal/trace

# The recipes of docs/scale.md need a Slurm and an sshd, and more of them podman and a machine in namespaces.
# Where these cannot be had, nothing is said to hold.
for all in "" all; do
  if missing=$(scripts/scale.sh --missing $all) && [ -n "$missing" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } >/dev/null 2>&1 || true
  fi
done
if missing=$(scripts/scale.sh --missing) && [ -n "$missing" ]; then
  echo "check-extra: the recipes of docs/scale.md were NOT checked; missing: $missing" >&2
else
  make build
  scripts/scale.sh
fi
