#!/usr/bin/env bash
# Runs every benchmark and prints ratios where a ratio says more. Nothing is asserted: machines are
# shared and noisy. BENCH=regexp chooses benchmarks, BENCHTIME=20x sets how often each runs.
# JP_BENCH_LAUNCHER='ssh -T localhost' is the launcher of the workers in place of env.
set -euo pipefail
cd "$(dirname "$0")/.."
bench=${BENCH:-.}
time=${BENCHTIME:-}
run() { CGO_ENABLED=0 go test -tags urfave_cli_no_docs -run '^$' -bench "$bench" -timeout 60m "$@" | grep -E '^(Benchmark|ok|FAIL|---)'; }

echo '== whole processes: wall time, CPU with all descendants, peak memory; how many times an empty Go program or the floor, and the goal'
run -benchtime "${time:-20x}" ./cmd/jp
echo '== packages'
command -v rg >/dev/null || echo 'ripgrep (rg) is not installed: BenchmarkSearch leaves x-ripgrep out'
run ${time:+-benchtime "$time"} ./convstore/... ./profiles ./tools/... ./cmd/jp/internal/...
