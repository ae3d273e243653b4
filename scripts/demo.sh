#!/usr/bin/env bash
# The whole job in a temporary folder: a main agent studies this repository's source through researcher sub-agents.
# The models' words are scripted (testdata/demo/models); processes, searches, files, store and results are real.
set -euo pipefail
cd "$(dirname "$0")/.."
jp=$PWD/bin/jp
[ -x "$jp" ] || { echo "demo: build first: make build" >&2; exit 1; }

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cp -R testdata/demo "$tmp/workspace"
cp -R convstore profiles tools cmd "$tmp/workspace/"
unset "${!JP_@}" "${!OTEL_@}" # nothing of the caller's settings, recordings or collector
export XDG_STATE_HOME=$tmp/state XDG_CONFIG_HOME=$tmp/config JP_SESSION=demo
cd "$tmp/workspace"

show() {
  printf '\n\033[1m$ %s\033[0m\n' "jp $*"
  "$jp" "$@"
}
[ -t 1 ] || show() { printf '\n$ %s\n' "jp $*"; "$jp" "$@"; }

show trust --yes
show query --new "How does this program make sure that nothing outlives it, and how is its store shared?"
show conversation ls --tree --hidden
show conversation grep --hidden --scope assistant turnstile
show query -F json "And in one line?"
