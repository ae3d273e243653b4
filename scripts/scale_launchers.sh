# Sub-agents on other machines, by the launchers of docs/scale.md: a tree and a batch through ssh (a shared and a new connection)
# and through srun, and what happens when something on the way dies. scripts/scale.sh reads this file when its beds are up:
# $dir, $ws, $here, fail, until_true, $JP_BED_SSH and SLURM_CONF are its own.
#
# The owner is $dir/bin/jp and jp on the node is $dir/node/jp: so each process shows on which side it is.
# shellcheck shell=bash

lease=4
mkdir -p "$dir/node" "$dir/home/.config/jp" "$dir/far"
cp "$jp" "$dir/node/jp"
owner=$dir/bin/jp
secret=sk-not-for-nodes-$RANDOM$RANDOM

# table NAME COMMAND [LINE...] writes a launcher to the user's config.
table() {
  local name=$1 command=$2
  shift 2
  {
    echo "[launchers.$name]"
    echo "command = $command"
    echo "program = \"$dir/node/jp\""
    echo "lease = \"${lease}s\""
    echo 'queue = "60s"'
    [ $# = 0 ] || printf '%s\n' "$@"
  } >>"$HOME/.config/jp/config.toml"
}
table shared "[\"ssh\", \"-F\", \"$dir/ssh/ssh_config\", \"-T\", \"n1\"]"
table cold "[\"ssh\", \"-F\", \"$dir/ssh/ssh_config\", \"-T\", \"cold1\"]"
table step '["srun", "--overlap", "--exact", "--ntasks=1", "--quiet", "--quit-on-interrupt", "--job-name={run}"]' 'env = ["SLURM_*"]'
table job '["srun", "--ntasks=1", "--quiet", "--quit-on-interrupt", "--job-name={run}", "--comment=jp"]' 'env = ["SLURM_CONF"]' 'stop = ["scancel", "--name={run}"]'

# on_node prints the processes of the node, with the tool.
on_node() { of_exe "$dir/node/jp" "$ws/hold"; }
held() { [ -n "$(of_exe "$ws/hold")" ]; }
node_empty() { [ -z "$(on_node)" ]; }
# worker prints the jp worker on the node.
worker() {
  local p
  for p in $(of_exe "$dir/node/jp"); do
    tr '\0' ' ' <"/proc/$p/cmdline" | grep -q ' worker $' && echo "$p" && return
  done
}
# program NAME TEXT prints processes of a name with a text among their arguments.
program() {
  local p comm
  for p in /proc/[0-9]*; do
    { read -r comm <"$p/comm"; } 2>/dev/null && [ "$comm" = "$1" ] && tr '\0' ' ' 2>/dev/null <"$p/cmdline" | grep -qF -- "$2" && echo "${p#/proc/}"
  done
  true
}
parent() { awk '/^PPid:/ { print $2 }' "/proc/$1/status"; }
now() { cut -d' ' -f1 /proc/uptime; }
ended() { ! kill -0 "$pid" 2>/dev/null; }

export JP_STORE=$dir/stores/far
far() { "$owner" -w "$ws" "$@"; }

# with_key COMMAND...: with a key in its environment, and its process in $dir/far/pid.
printf '%s' "$secret" >"$dir/far/key"
cat >"$dir/far/with_key" <<SH
#!/bin/sh
echo "\$\$" >"$dir/far/pid"
OPENAI_API_KEY=\$(cat "$dir/far/key") exec env --default-signal=INT "\$@" # whoever started this may ignore it
SH
chmod +x "$dir/far/with_key"

# by LAUNCHER COMMAND...: in an allocation of Slurm, or with a shared connection, if the launcher needs one.
by() {
  local launcher=$1
  shift
  [ "$launcher" != shared ] || $JP_BED_SSH n1 true </dev/null
  if [ "$launcher" = step ]; then salloc --quiet --ntasks=1 --cpus-per-task=2 "$@"; else "$@"; fi
}

# works LAUNCHER: doctor, a tree and a batch.
works() {
  local launcher=$1 answer got
  by "$launcher" "$owner" -w "$ws" doctor --launcher "$launcher" >"$dir/out/doctor.out" 2>"$dir/out/doctor.err" || fail "doctor --launcher $launcher: $(cat "$dir/out/doctor.out")"
  answer=$(by "$launcher" "$owner" -w "$ws" query -q --new --no-activate --launcher "$launcher" tree </dev/null 2>"$dir/out/tree.err") || fail "launcher $launcher: $?"
  [ "$answer" = "both are back" ] || fail "launcher $launcher: $answer"
  by "$launcher" "$owner" -w "$ws" batch -c agent/worker --launcher "$launcher" --max-cost 4 <"$ws/lines.jsonl" >"$dir/far/rows" 2>"$dir/out/batch.err" || fail "batch of launcher $launcher: $?"
  got=$(jq -r 'select(.status == "ok") | .text' "$dir/far/rows" | tr '\n' ' ')
  [ "$got" = "$want" ] || fail "rows of launcher $launcher: $got"
  until_true node_empty
}
for launcher in shared cold step job; do
  echo "scale: launcher $launcher: doctor, a tree and a batch" >&2
  works "$launcher"
done

# fault TITLE LAUNCHER STATE ACT: while a tool of a sub-agent runs on the node, ACT is done. The sub-agent must get STATE
# and nothing may be left on the node longer than the lease and 2 s (and 3 s in which this busy machine finds that out).
# Every event that was stored is there still, what was paid is settled once, and the tree and the sub-agent can go on.
fault() {
  local title=$1 launcher=$2 want=$3 act=$4 begun took root child said
  echo "scale: launcher $launcher: $title" >&2
  by "$launcher" "$dir/far/with_key" "$owner" -w "$ws" query -q --new --no-activate --launcher "$launcher" "${ask:-hang}" </dev/null >"$dir/out/fault.out" 2>"$dir/out/fault.err" &
  pid=$!
  until_true held
  searched
  far conversation ls --hidden --sort created -F json | jq '[.[] | select(.profile == "agent/holder")] | last' >"$dir/far/child"
  child=$(jq -r .id "$dir/far/child") root=$(jq -r .root_id "$dir/far/child")
  far conversation print "$child" -F json >"$dir/far/before"
  begun=$(now)
  $act
  until_true "${empty:-node_empty}"
  took=$(echo "$(now) $begun" | awk '{ printf "%.1f", $1 - $2 }')
  ${after:-true}
  until_true ended
  wait "$pid" || true
  said=$(far conversation show "$child" -F json | jq -r '"\(.status) \(.reason)"')
  [ "${said%% *}" = "$want" ] || fail "$title: the sub-agent is $said, want $want: $(cat "$dir/out/fault.err")"
  [ -z "${ask:-}" ] || [ "$(cat "$dir/out/fault.out")" = "it has ended: answer 3" ] || fail "$title: then the root said $(cat "$dir/out/fault.out")"
  awk -v took="$took" -v most="${most:-$((lease + 2 + 3))}" 'BEGIN { exit took > most }' || fail "$title: the node was empty after $took s only"
  far conversation print "$child" -F json >"$dir/far/now"
  jq -e --slurpfile had "$dir/far/before" '.[: $had[0] | length] == $had[0]' "$dir/far/now" >/dev/null || fail "$title: events are gone: $(cat "$dir/far/before" "$dir/far/now")"
  echo "scale:   $said, the node is empty after $took s" >&2
  until_true goes_on # not before the lease of a killed owner is over
  far usage --check "$root" >"$dir/out/fault.err" || fail "$title: paid and settled differ"
}
goes_on() {
  by "$launcher" "$owner" -w "$ws" query -q --no-activate --id "$root" --launcher "$launcher" "resume $child" </dev/null >"$dir/out/goes_on.err" 2>&1
  [ "$(cat "$dir/out/goes_on.err")" = "it has ended: answer 4" ]
}
# searched looks for the key in all environments and arguments but the owner's own, and in all files of the node.
searched() {
  local p
  for p in /proc/[0-9]*; do
    [ "$p/exe" -ef "$owner" ] && continue
    ! grep -aqsF -- "$secret" "$p/environ" "$p/cmdline" || fail "the key is in process ${p#/proc/}: $(tr '\0' ' ' <"$p/cmdline" | cut -c1-200)"
  done
  ! grep -raqsF -- "$secret" "$dir"/{slurm,node,ssh,root} "$ws" /tmp/jp-worker-* || fail "the key is in a file"
}

# Acts. Of what they leave stopped or down, after takes care.
stop_worker() { kill -STOP "$(worker)"; }
only_worker() { [ "$(on_node)" = "$(worker)" ]; }
thaw_worker() { until_true ended; kill -CONT "$(worker)"; until_true node_empty; }
# shellcheck disable=SC2046  # ids
stop_node() { # until the owner takes it for lost
  kill -STOP $(on_node)
  until_true ended
  kill -CONT $(on_node)
}
stop_owner() { kill -STOP "$(cat "$dir/far/pid")"; }
thaw_owner() { kill -CONT "$(cat "$dir/far/pid")"; }
# shellcheck disable=SC2046  # ids
stop_sruns() { kill -STOP $(program srun --job-name=); }
stop_child() { far stop "$(far ps -F json | jq -r '.[] | select(.parent_id) | .id')" >/dev/null; }
kill_worker() { kill -9 "$(worker)"; }
term_worker() { kill -TERM "$(worker)"; }
kill_client() { kill -9 "$(program ssh "$dir/ssh/ssh_config -T cold1")"; }
kill_session() { kill -9 "$(parent "$(worker)")"; }
kill_master() { kill -9 "$(program ssh "$dir/ssh/cm/n1")"; }
stop_client() { kill -STOP "$(program ssh "$dir/ssh/ssh_config -T cold1")"; }
thaw_client() { kill -CONT "$(program ssh "$dir/ssh/ssh_config -T cold1")" 2>/dev/null || true; }
kill_owner() { kill -9 "$(cat "$dir/far/pid")"; }
interrupt_owner() { kill -INT "$(cat "$dir/far/pid")"; }
kill_srun() { # not the one below it, which tells Slurm
  local p first=
  for p in $(program srun --job-name=); do [ "$(cat "/proc/$(parent "$p")/comm")" = srun ] || first+=" $p"; done
  # shellcheck disable=SC2086  # ids
  kill -9 $first
}
# shellcheck disable=SC2046  # ids
kill_both_sruns() { kill -9 $(program srun --job-name=); }
kill_stepd() { kill -9 "$(parent "$(worker)")"; }
kill_slurmd() { for p in "$dir"/slurm/run/slurmd-n*.pid; do kill -9 "$(cat "$p")"; done; }
repair() { "$here/scripts/nodes/slurm-up.sh" "$dir/slurm" 2 4 >/dev/null; }
cancel_job() { scancel "$(squeue -h -o %i)"; }
cancel_step() { scancel "$(squeue -h -s -o %i | grep -v -e batch -e extern | tail -n 1)"; }
preempt() { srun --quiet --partition=urgent --nodes=2 --exclusive sleep 1; }
limit() { scontrol update JobId="$(squeue -h -o %i)" TimeLimit=1; }

fault "the worker is killed" cold lost kill_worker
fault "SIGTERM of the worker" cold cancelled term_worker
fault "the connection is cut here" cold lost kill_client
fault "the connection is cut on the node" cold lost kill_session
fault "the shared connection is cut" shared lost kill_master
after=thaw_client fault "the connection is stopped beyond the lease, and thawed" cold lost stop_client
fault "Ctrl-C" cold cancelled interrupt_owner
fault "the owner is killed" cold lost kill_owner
fault "the owner is killed" step lost kill_owner
fault "the worker is killed" step lost kill_worker
fault "srun is killed" step lost kill_srun
fault "slurmstepd is killed" step lost kill_stepd
fault "scancel of the step" step lost cancel_step
fault "srun and its shepherd are killed" job lost kill_both_sruns
fault "scancel of the job" job cancelled cancel_job
fault "preemption" job cancelled preempt
tries=1000 most=60 after=repair fault "slurmd is killed" job lost kill_slurmd
tries=1500 most=100 fault "time limit" job cancelled limit
until_true sh -c '[ -z "$(squeue -h)" ]'
empty=only_worker after=thaw_worker fault "the worker alone is stopped" cold lost stop_worker
most=14 fault "all of the node is stopped beyond the lease, and thawed" cold lost stop_node
after=thaw_owner fault "the owner is stopped beyond the lease, and thawed" cold lost stop_owner
fault "srun is stopped" step lost stop_sruns
fault "jp stop of the sub-agent" cold cancelled stop_child

echo "scale: two owners by one shared connection, of which one is killed" >&2
$JP_BED_SSH n1 true </dev/null
"$dir/far/with_key" "$owner" -w "$ws" query -q --new --no-activate --launcher shared hang </dev/null >"$dir/out/first.out" 2>"$dir/out/first.err" &
until_true held
for i in 1 2; do
  far query -q --new --no-activate --launcher shared tree </dev/null >"$dir/far/second-$i" 2>"$dir/out/second-$i.err" &
  pids[i]=$!
done
kill_owner
for i in 1 2; do
  wait "${pids[i]}" || fail "the other owner: $?"
  [ "$(cat "$dir/far/second-$i")" = "both are back" ] || fail "the other owner: $(cat "$dir/far/second-$i")"
done
until_true node_empty

echo "scale: a batch job with steps is started again by Slurm" >&2
cat >"$dir/far/job.sh" <<JOB
#!/bin/sh
#SBATCH --ntasks=1 --cpus-per-task=2 --requeue
exec "$owner" -w "$ws" query -q --new --no-activate --launcher step hang </dev/null
JOB
before=$(far conversation ls --hidden -F json | jq length)
job=$(sbatch --parsable --output="$dir/out/requeue.err" "$dir/far/job.sh")
until_true held
scontrol requeue "$job"
until_true node_empty
# Slurm waits two minutes, which it may set at any time. Between two orders to start now it has time to do so. The node refuses
# for good a job that starts in the second in which it was killed ("Job credential revoked").
sleep 2
again() { scontrol update JobId="$job" StartTime=now; for _ in $(seq 30); do held && return; sleep 0.1; done; false; }
tries=60 until_true again
states=$(far conversation ls --hidden --sort created -F json | jq -r ".[$before:] | map(select(.depth == 1) | .status) | join(\" \")")
[ "$states" = "cancelled running" ] || fail "requeue: the sub-agents are $states"
scancel "$job"
until_true node_empty

# ahead is a jp whose clock is an hour ahead. It is the node, and then the owner.
echo "scale: clocks an hour apart" >&2
goroot=$(go env GOROOT)
sed 's/^\tsec, nsec, mono := runtimeNow()$/&; sec += 3600/' "$goroot/src/time/time.go" >"$dir/far/time.go"
printf '{"Replace": {"%s": "%s"}}' "$goroot/src/time/time.go" "$dir/far/time.go" >"$dir/far/overlay.json"
CGO_ENABLED=0 go build -trimpath -overlay "$dir/far/overlay.json" -tags urfave_cli_no_docs -o "$dir/node/ahead" ./cmd/jp
cp "$dir/node/ahead" "$dir/bin/ahead"
table ahead "[\"ssh\", \"-F\", \"$dir/ssh/ssh_config\", \"-T\", \"cold1\"]"
sed -i '/^\[launchers.ahead\]$/,$ s|/node/jp"|/node/ahead"|' "$HOME/.config/jp/config.toml"
for pair in jp:ahead ahead:cold; do
  export JP_STORE=$dir/stores/${pair%:*}
  answer=$("$dir/bin/${pair%:*}" -w "$ws" query -q --new --no-activate --launcher "${pair#*:}" tree </dev/null 2>"$dir/out/apart.err") || fail "clocks apart, $pair: $?"
  [ "$answer" = "both are back" ] || fail "clocks apart, $pair: $answer"
  "$dir/bin/${pair%:*}" -w "$ws" trace newest -F json >"$dir/far/trace.json"
  apart=$(($(date -d "$(jq -r .started_at "$dir/far/trace.json")" +%s) - $(date +%s)))
  [ "$((apart / 60 > 50))" = "$([ "$pair" = jp:ahead ]; echo $?)" ] || fail "clocks apart, $pair: the tree began $apart s from now"
  bad=$(jq -c '[.. | .duration_ms? | numbers | select(. < 0 or . > 60000)]' "$dir/far/trace.json")
  [ "$bad" = "[]" ] || fail "clocks apart, $pair: spans of $bad ms"
done
