#!/usr/bin/env bash
# The checks that need more than Go and make. What is missing is installed where apt can do it, else named.
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
need tmux tmux
make race
JP_TEST_TMUX=1 CGO_ENABLED=0 go test -tags urfave_cli_no_docs -count=1 -run 'TestTerminal' ./cmd/jp
