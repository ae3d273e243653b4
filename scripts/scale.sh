#!/usr/bin/env bash
# The recipes of docs/scale.md on a real Slurm of two nodes and a real sshd, both on this host: a batch in
# shards as an array of jobs, one of which is cancelled and resumed, trees over ssh, one of which loses
# its connection, and trees whose sub-agents a launcher starts on a node, with what dies on the way
# (scale_launchers.sh), also on a machine without power or network and in containers (scale_machines.sh).
# The model is a script. Needs root, Go and the Debian packages slurmctld, slurmd, slurm-client, munge,
# openssh-server and openssh-client; bin/jp must be built. The machine needs iproute2 and nftables, the
# containers podman, and perhaps runc; without these it says what it has not tried.
#
#   scale.sh [DIR]            # DIR is made and removed; its path must be short
#   scale.sh --missing [all]  # prints what it needs and this machine lacks; all: to try everything
set -euo pipefail
if [ "${1:-}" = --missing ]; then
  PATH=$PATH:/usr/sbin:/sbin
  for need in slurmctld:slurmctld slurmd:slurmd srun:slurm-client munged:munge sshd:openssh-server ssh:openssh-client jq:jq go:golang ${2:+ip:iproute2 nft:nftables podman:podman runc:runc}; do
    command -v "${need%:*}" >/dev/null || printf '%s ' "${need#*:}"
  done
  [ "$(id -u)" = 0 ] || printf 'root '
  exit
fi
cd "$(dirname "$0")/.."
here=$PWD
jp=$here/bin/jp
if [ -e "${1:-}" ]; then
  echo "scale: $1: is there already, and DIR is removed at the end" >&2
  exit 2
fi
dir=${1:-$(mktemp -d /tmp/jp-scale.XXXXXX)}
mkdir -p "$dir"/{bin,home,slurm,ssh,out,stores}
cp "$jp" "$dir/bin/jp"

down() {
  "$here"/scripts/nodes/slurm-down.sh "$dir/slurm" --purge >&2 || true
  "$here"/scripts/nodes/ssh-down.sh "$dir/ssh" --purge >&2 || true
  local p
  for p in $(of_exe "$dir"/bin/* "$dir"/node/*); do kill -9 "$p" || true; done
  [ -z "${machine:-}" ] || machine_down || true
  [ -z "${box:-}" ] || box_down || true
  rm -rf "$dir"
}
trap down EXIT
fail() { # the reason last, where a reader of a long log looks first
  find "$dir/out" -name '*.err' -size +0 -exec tail -v -n 20 {} + >&2 || true
  echo "scale: $*" >&2
  exit 1
}
# until COMMAND: tries for 30 s, or $tries tenths of a second.
until_true() {
  for _ in $(seq "${tries:-300}"); do "$@" >/dev/null 2>&1 && return; sleep 0.1; done
  fail "waited in vain for: $*"
}
# of_exe FILE... prints the processes whose program is one of the files; running those of this check's jp.
of_exe() {
  local p file
  for p in /proc/[0-9]*; do
    for file; do [ "$p/exe" -ef "$file" ] && echo "${p#/proc/}"; done
  done
  true
}
running() { of_exe "$dir/bin/jp"; }

two() { [ "$(running | wc -l)" -ge 2 ]; }
gone() { [ -z "$(running)" ]; }

eval "$(scripts/nodes/slurm-up.sh "$dir/slurm" 2 4)"
eval "$(scripts/nodes/ssh-up.sh "$dir/ssh" 1)"

# The workspace that all nodes see, and lines for a batch.
ws=$dir/ws
mkdir -p "$ws/.jp/config/agent"
cp "$(command -v sleep)" "$ws/hold"
cat >"$ws/.jp/config.toml" <<'CONF'
[assistant]
model = "script/model.toml"
[conversation.tools.jp_query]
source = "delegation"
run = "unattended"
[delegation]
profiles = ["agent/worker", "agent/holder"]
max_parallel = 8
CONF
cat >"$ws/.jp/config/agent/worker.toml" <<'CONF'
[loader]
reset = "none"
[assistant]
model = "script/model.toml"
CONF
cat - "$ws/.jp/config/agent/worker.toml" >"$ws/.jp/config/agent/holder.toml" <<'CONF'
[conversation.tools.hold]
source = "local"
run = "unattended"
description = "Sleeps."
command = "./hold 3600"
sandbox = "auto"
timeout = "1h"
CONF
cat >"$ws/model.toml" <<'CONF'
[captures]
it = '^part (\d+)$'
child = { pattern = 'resume (jp-c[0-9]+)', default = "none" }
said = { pattern = 'answer \d+', match = -1, default = "nothing" }
[[rule]]
query = "slow"
text = "slow"
delay = "60s"
[[rule]]
query = "tree"
round = 1
tool_calls = [
  { name = "jp_query", arguments = { config = "agent/worker", query = "part 1" } },
  { name = "jp_query", arguments = { config = "agent/worker", query = "part 2" } },
]
[[rule]]
query = "tree"
text = "both are back"
[[rule]]
query = "hang"
round = 1
tool_calls = [{ name = "jp_query", arguments = { config = "agent/holder", query = "hold" } }]
[[rule]]
query = "hang, and ask another one"
round = 2
tool_calls = [{ name = "jp_query", arguments = { config = "agent/worker", query = "part 3" } }]
[[rule]]
query = "resume"
round = 1
tool_calls = [{ name = "jp_query", arguments = { config = "agent/holder", id = "{{child}}", query = "part 4" } }]
[[rule]]
query = ["hang", "resume"]
text = "it has ended: {{said}}"
[[rule]]
query = "hold"
round = 1
tool_calls = [{ name = "hold", arguments = {} }]
[[rule]]
text = "answer {{it}}"
delay = "200ms"
CONF
for i in $(seq 12); do echo "\"part $i\""; done >"$ws/lines.jsonl"

GOPATH=$(go env GOPATH) GOCACHE=$(go env GOCACHE)
export GOPATH GOCACHE HOME=$dir/home JP_TRUST_WORKSPACE=1 PATH=$dir/bin:$PATH
cat >"$dir/shard.sh" <<JOB
#!/bin/sh
#SBATCH --ntasks=1 --requeue
export JP_STORE=$dir/stores/\$SLURM_ARRAY_TASK_ID   # a node's own disk
cd $ws
echo "\$SLURMD_NODENAME" >$dir/out/\$SLURM_ARRAY_TASK_ID.node
exec jp batch -c agent/worker --shard "\$SLURM_ARRAY_TASK_ID/4" --max-cost 4 <lines.jsonl >$dir/out/\$SLURM_ARRAY_TASK_ID.jsonl
JOB

echo "scale: a batch as an array of four jobs on two nodes" >&2
sbatch --quiet --wait --array=1-4 --cpus-per-task=2 --output="$dir/out/%a.err" "$dir/shard.sh" || fail "the array ended with $?"
for i in 1 2 3 4; do cat "$dir/out/$i.jsonl"; done >"$dir/all.jsonl"
got=$(jq -r 'select(.status == "ok") | .text' "$dir/all.jsonl" | tr '\n' ' ')
want=$(for i in $(seq 12); do printf 'answer %s ' "$i"; done)
[ "$got" = "$want" ] || fail "the rows of all shards: $got"
[ "$(sort -u "$dir"/out/*.node | wc -l)" = 2 ] || fail "not on two nodes: $(cat "$dir"/out/*.node)"

echo "scale: the stores of all jobs in one" >&2
cd "$ws"
for i in 1 2 3 4; do
  JP_STORE=$dir/stores/$i jp conversation export --cascade "$(JP_STORE=$dir/stores/$i jp conversation ls -F json | jq -r ".[0].id")" >"$dir/$i.export"
  JP_STORE=$dir/stores/all jp conversation import --new-ids - <"$dir/$i.export" >/dev/null
done
n=$(JP_STORE=$dir/stores/all jp conversation ls --hidden -F json | jq length)
[ "$n" = 16 ] || fail "$n conversations are in the one store, want 4 batches and 12 sub-agents"
cd "$here"

echo "scale: a job that is cancelled is resumed" >&2
sed 's|<lines.jsonl|<slow.jsonl|; s|/stores/|/stores/cancel-|; s|/out/|/out/cancel-|g' "$dir/shard.sh" >"$dir/cancel.sh"
(cat "$ws/lines.jsonl"; for i in 1 2 3 4; do echo '"slow"'; done) >"$ws/slow.jsonl"
job=$(sbatch --parsable --array=4 --output="$dir/out/cancel.err" "$dir/cancel.sh")
until_true grep -q started "$dir/out/cancel.err"
# The whole job, with jp itself, gets SIGTERM; KillWait later it would be killed.
scancel "$job"
until_true gone
JP_STORE=$dir/stores/cancel-4 jp -w "$ws" conversation ls --hidden -F json >"$dir/cancel.json"
[ "$(jq -r '[.[] | select(.status == "running")] | length' "$dir/cancel.json")" = 0 ] || fail "something runs after scancel: $(cat "$dir/cancel.json")"
[ "$(jq -r '[.[] | select(.status == "cancelled")] | length' "$dir/cancel.json")" -gt 0 ] || fail "nothing is cancelled: $(cat "$dir/cancel.json")"
sed -i 's/delay = "60s"/delay = "10ms"/' "$ws/model.toml"
sed "s|<slow.jsonl.*|--resume $dir/out/cancel-4.jsonl <slow.jsonl >$dir/out/resumed.jsonl|" "$dir/cancel.sh" >"$dir/resume.sh"
sbatch --quiet --wait --array=4 --output="$dir/out/resume.err" "$dir/resume.sh" || fail "the resumed job ended with $?"
[ "$(jq -r 'select(.status == "ok") | .text' "$dir/out/resumed.jsonl" | wc -l)" = 4 ] || fail "resumed: $(cat "$dir/out/resumed.jsonl")"
sed -i 's/delay = "10ms"/delay = "60s"/' "$ws/model.toml"

echo "scale: a tree over ssh" >&2
remote="cd $ws && HOME=$dir/home JP_TRUST_WORKSPACE=1 JP_STORE=$dir/stores/ssh $dir/bin/jp query -q --new --no-activate"
answer=$($JP_BED_SSH n1 "$remote tree" </dev/null 2>"$dir/out/ssh.err") || fail "ssh: $?"
[ "$answer" = "both are back" ] || fail "over ssh: $answer"

echo "scale: a tree whose connection is lost" >&2
$JP_BED_SSH cold1 -tt "$remote hang" </dev/null >"$dir/out/lost.err" 2>&1 &
ssh=$!
until_true two
kill -9 "$ssh"
until_true gone
state=$(JP_STORE=$dir/stores/ssh jp -w "$ws" conversation show newest -F json | jq -r .status)
[ "$state" = cancelled ] || fail "after the connection was lost: $state, want cancelled"

. scripts/scale_launchers.sh
. scripts/scale_machines.sh
echo "scale: ok, all that was tried" >&2
