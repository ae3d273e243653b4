#!/usr/bin/env bash
# Runs every fuzz target of the module, one after another, for $FUZZTIME (20s) each.
# `scripts/fuzz.sh REGEXP` runs those whose "folder Name" matches. All are run even when some fail. The
# failed ones are listed at the end; the input of each is in the package's testdata/fuzz.
# FUZZWORKERS (2) is how many inputs are tried at once.
#
# `go test -fuzz` would build every dependency again with counters in it. That takes minutes for the SDKs
# of the providers, which are not fuzzed. Here only this module's packages have counters, and each
# package's test is built once for all its targets.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
time=${FUZZTIME:-20s} workers=${FUZZWORKERS:-2} only=${1-}
module=$(go list -m) cache=$(go env GOCACHE)/fuzz
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT # the tests end well when interrupted: bash would go on with the next

found=0 built='' failed=()
while read -r dir name; do
  [[ "$dir $name" =~ $only ]] || continue
  found=$((found + 1))
  if [ "$dir" != "$built" ]; then
    go test -c -vet=off -tags urfave_cli_no_docs -gcflags="$module/...=-d=libfuzzer" -o "$tmp/test" "./$dir"
    built=$dir
  fi
  echo "== $dir $name"
  # Without a bound, minimizing a new input takes all of the time.
  (cd "$dir" && "$tmp/test" -test.run='^$' -test.fuzz="^$name\$" -test.fuzztime="$time" -test.fuzzminimizetime=20x \
    -test.fuzzcachedir="$cache/$module/$dir" -test.parallel="$workers") </dev/null 2>&1 | tee "$tmp/out" || {
    input=$(sed -n 's|^ *Failing input written to \(testdata/fuzz/.*\)$|\1|p' "$tmp/out")
    failed+=("$dir $name: ${input:+$dir/}${input:-no new input: one of testdata/fuzz or of the code fails, see above}")
  }
done < <(git ls-files '*_test.go' | xargs grep -oE '^func Fuzz[A-Za-z0-9_]+' | sed 's|/[^/]*:func | |' | sort)

[ "$found" -gt 0 ] || { echo "no fuzz target found" >&2; exit 1; }
echo "$found fuzz targets, ${#failed[@]} failed"
[ "${#failed[@]}" = 0 ] || { printf '%s\n' "${failed[@]}" >&2; exit 1; }
