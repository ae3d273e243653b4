#!/usr/bin/env bash
# Runs every fuzz target of the module for $FUZZTIME (20s). A failure leaves its input in the package's testdata/fuzz. Without a bound
# of its own, making inputs smaller takes all of that time (up to a minute for each that is new).
set -euo pipefail
cd "$(dirname "$0")/.."
time=${FUZZTIME:-20s}
found=0
while IFS=: read -r file name; do
  found=$((found + 1))
  echo "== $(dirname "$file") $name"
  CGO_ENABLED=0 go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" -fuzzminimizetime 20x "./$(dirname "$file")"
done < <(git ls-files '*_test.go' | xargs grep -oE '^func Fuzz[A-Za-z0-9_]+' | sed 's/:func /:/')
[ "$found" -gt 0 ] || { echo "no fuzz target found" >&2; exit 1; }
