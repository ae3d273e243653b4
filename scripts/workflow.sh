#!/bin/sh
# Research, plan, implement, review: four steps over one conversation, each of which can be read, searched and continued
# afterwards. POSIX sh; docs/scripting.md walks through it.
set -eu

usage() {
  cat <<'TEXT'
usage: workflow.sh [-p] [-r] [-k PATTERN] GOAL [QUESTION...]

Researchers answer the QUESTIONs at the same time (without any: what GOAL touches), a planner makes a plan of what they
found, the main agent carries it out and then looks at what it did. stdout is the main agent's last word.

  -p          stop at the plan and print it
  -r          do not ask again what was answered before: a question or plan with the same words and agent is reused
  -k PATTERN  also hand the planner what earlier conversations said about PATTERN

exit status: that of the first step that failed, else 7 when a step was stopped at a limit, else 0
TEXT
}

say() { printf 'workflow: %s\n' "$*" >&2; }

plan_only='' pattern='' reuse=''
while getopts prk:h option; do
  case $option in
    p) plan_only=yes ;;
    r) reuse=--reuse ;;
    k) pattern=$OPTARG ;;
    h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done
shift $((OPTIND - 1))
if [ $# -eq 0 ]; then usage >&2; exit 2; fi
goal=$1
shift
[ $# -gt 0 ] || set -- "What does this touch, and how does it work today? $goal"

# Background jobs of a shell do not get Ctrl-C. When this script ends, for whatever reason, it stops the
# jobs that still run and waits for them.
pids=''
work=$(mktemp -d)
finish() {
  [ -z "$pids" ] || { kill $pids 2>/dev/null || :; wait; }
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# step WHAT COMMAND...: runs one step. Status 7 (a limit) still has an answer to continue with; any
# other failure ends the workflow.
partial=0
step() {
  what=$1
  shift
  status=0
  "$@" || status=$?
  case $status in
    0) ;;
    7) partial=7; say "$what was stopped at a limit; going on with what there is" ;;
    *) say "$what failed (status $status); jp conversation ls --root=$root --hidden shows what there is"; exit "$status" ;;
  esac
}

# Find what earlier conversations said. No match is status 1, and no error.
: >"$work/earlier"
if [ -n "$pattern" ]; then
  status=0
  jp conversation grep --hidden --scope assistant --context 2 -- "$pattern" >"$work/earlier" || status=$?
  [ "$status" -le 1 ] || exit "$status"
fi

# The main agent's conversation: the researchers and the planner work on its behalf, so that it can ask them again.
root=$(jp conversation new --title "$goal")
say "conversation $root"

# Research. `--id new --root-id` delegates: the agent's file says what it can do, and $root bounds it.
n=0
for question; do
  n=$((n + 1))
  jp query --id new --root-id "$root" --config agent/researcher --no-activate --hidden $reuse -- "$question" \
    </dev/null >"$work/finding.$n" &
  pids="$pids $!"
done
n=0
for pid in $pids; do
  n=$((n + 1))
  step "question $n" wait "$pid"
  pids=${pids#" $pid"}
done

# Plan. The piped text comes below the words.
{
  [ ! -s "$work/earlier" ] || { printf '## Said earlier\n\n'; cat "$work/earlier"; echo; }
  n=0
  for question; do
    n=$((n + 1))
    printf '## %s\n\n' "$question"
    cat "$work/finding.$n"
    echo
  done
} >"$work/findings"
plan() {
  jp query --id new --root-id "$root" --config agent/planner --no-activate --hidden $reuse -- "Make a plan for: $goal" <"$work/findings" >"$work/plan"
}
step 'the plan' plan
if [ -n "$plan_only" ]; then
  cat "$work/plan"
  exit "$partial"
fi

# Implement and review: two turns of the main agent, which change files and so run each time. It asks a researcher again where the plan leaves something open.
implement() {
  jp query --id "$root" --no-activate -- "Carry out this plan for: $goal" <"$work/plan" >"$work/done"
}
review() {
  jp query --id "$root" --no-activate -- "Read what you changed. Does it reach the goal, and what is left to do?" </dev/null
}
step 'the implementation' implement
step 'the review' review

jp conversation ls --root="$root" --hidden >&2
exit "$partial"
