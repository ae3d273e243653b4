# Sub-agents on a machine whose network and power scripts/scale.sh can take: namespaces of network and of processes with an sshd
# in them, at the other end of a cable. And in a container, by the recipes of docs/scale.md for docker, with podman. What cannot
# be had here counts as not tried, and is named at the end.
# shellcheck shell=bash

untried="a machine that is suspended, tasks that Slurm finds by cgroups, a requeue of a job that srun has started (Slurm"
untried+=" does not requeue those)"

# machine_up makes the machine anew and starts it. ssh asks neither side whether the other is there: only the lease shows it.
cable=jp$$
far=198.18.77
sshd=$(PATH=$PATH:/usr/sbin command -v sshd)
far_ssh=(ssh -F "$dir/ssh/ssh_config" -T -o HostName=$far.2 -o ServerAliveInterval=0 -o ConnectTimeout=10 cold1)
machine_up() {
  ip netns add $cable &&
    ip link add $cable type veth peer name eth0 netns $cable &&
    ip address add $far.1/30 dev $cable && ip link set $cable up &&
    ip -n $cable address add $far.2/30 dev eth0 && ip -n $cable link set eth0 up && ip -n $cable link set lo up &&
    ip netns exec $cable nft list tables >/dev/null || return
  ip netns exec $cable unshare --pid --fork --kill-child --mount-proc "$sshd" -D -f "$dir/ssh/sshd-n1.conf" \
    -o ListenAddress=$far.2 -o PidFile=none -o ClientAliveInterval=0 -E "$dir/ssh/log/machine.log" &
  machine=$!
  for _ in $(seq 100); do
    "${far_ssh[@]}" true </dev/null >/dev/null 2>&1 && return
    sleep 0.1
  done
  echo "no sshd answers in it: $(tail -n 1 "$dir/ssh/log/machine.log" 2>&1)" >&2
  false
}
# machine_down takes the power: no process and no socket of the machine says a last word.
machine_down() {
  ip link del $cable
  [ -z "${machine:-}" ] || { kill -9 "$machine"; wait "$machine" 2>/dev/null || true; }
  machine=
  ip netns del $cable
}
# drop HOOK [RULE...]: what comes to the machine (input) or from it (output), and fits the rule, is lost without a word.
drop() {
  local hook=$1
  shift
  ip netns exec $cable nft "add table ip $hook; add chain ip $hook it { type filter hook $hook priority 0; }; add rule ip $hook it $* drop"
}
undrop() { ip netns exec $cable nft flush ruleset; }

unplug() { ip link set $cable down; until_true node_empty; ip link set $cable up; }
deafen() { drop input; until_true node_empty; undrop; }
mute() { drop output; until_true node_empty; undrop; }
blink() { ip link set $cable down; sleep 1; ip link set $cable up; stop_child; }
power() { machine_down; until_true node_empty; machine_up; }
power_blink() { machine_down; machine_up; }

if machine_up 2>"$dir/out/machine.err"; then
  table far "[$(printf '"%s", ' "${far_ssh[@]}")]"
  ask="hang, and ask another one"
  fault "the cable is out until after the lease" far lost unplug
  fault "nothing comes to the machine until after the lease" far lost deafen
  fault "nothing comes from the machine until after the lease" far lost mute
  fault "the power is out until after the lease" far lost power
  fault "the power is out for less than the lease" far lost power_blink
  ask=
  fault "the cable is out for less than the lease; then jp stop" far cancelled blink
  echo "scale: launcher far: a network that loses one packet in 20, 100 ms each way" >&2
  if tc qdisc add dev $cable root netem delay 100ms loss 5% 2>/dev/null; then
    tc -n $cable qdisc add dev eth0 root netem delay 100ms loss 5%
  else
    untried+=", a network that is slow (this kernel has no netem)"
    drop input numgen random mod 20 '<' 1
    drop output numgen random mod 20 '<' 1
  fi
  works far
  machine_down
else
  machine_down 2>/dev/null || true
  untried+=", a machine that loses its power or its network ($(tail -n 1 "$dir/out/machine.err"))"
fi

# The container stays, and has the programs of this host, the workspace and jp at their paths.
mkdir -p "$dir"/root/{proc,dev,sys,tmp,etc,run,usr}
cp -P /bin /lib /lib64 "$dir/root/"
pod=(podman --root "$dir/pod/store" --runroot "$dir/pod/run" --tmpdir "$dir/pod/tmp" --storage-driver vfs --cgroup-manager cgroupfs)
in_root=(--network=none --ulimit=nofile=1024:1024 --ulimit=nproc=4096:4096 --volume=/usr:/usr:ro
  "--volume=$dir/ws:$dir/ws" "--volume=$dir/node:$dir/node" --rootfs "$dir/root")
box_up() {
  "${pod[@]}" rm --force box >/dev/null 2>&1 || true
  "${pod[@]}" run --detach --name=box "${in_root[@]}" sleep infinity >/dev/null
}
box_down() { "${pod[@]}" rm --all --force --time=0 >/dev/null; box=; }
freeze() { "${pod[@]}" pause box >/dev/null; until_true ended; "${pod[@]}" unpause box >/dev/null; }
kill_box() { "${pod[@]}" kill box >/dev/null; }
kill_exec() { kill -9 "$(program podman "exec --interactive")"; }
kill_run() { kill -9 "$(program podman "run --rm --interactive")"; }
box_up 2>"$dir/out/box.err" || { pod+=(--runtime=runc); box_up 2>>"$dir/out/box.err"; } || pod=
if [ -n "$pod" ]; then
  box=1
  table box "[$(printf '"%s", ' "${pod[@]}" exec --interactive box)]"
  table run "[$(printf '"%s", ' "${pod[@]}" run --rm --interactive --name={run} "${in_root[@]}")]" \
    "stop = [$(printf '"%s", ' "${pod[@]}" kill {run})]"
  for launcher in box run; do
    echo "scale: launcher $launcher: doctor, a tree and a batch" >&2
    works "$launcher"
  done
  fault "podman exec is killed" box lost kill_exec
  fault "what podman exec leaves in the container's place is killed" box lost kill_session
  after=box_up fault "the container is killed" box lost kill_box
  # Its processes, which podman has made ones of jp, cannot be killed while the freezer has them: jp waits for 10 s.
  most=24 fault "the container is frozen beyond the lease, and thawed" box lost freeze
  fault "the owner is killed" box lost kill_owner
  fault "podman run is killed" run lost kill_run
  fault "the owner is killed" run lost kill_owner
  fault "Ctrl-C" run cancelled interrupt_owner
  box_down
else
  untried+=", containers ($(tail -n 1 "$dir/out/box.err"))"
fi
# JP_SCALE_POD names a pod on this machine that sees DIR, /usr, /lib and /lib64 of it at their paths (hostPath). DIR was made
# before the pod, and KUBECONFIG is set.
kill_kubectl() { kill -9 "$(program kubectl "exec --stdin")"; }
if [ -n "${JP_SCALE_POD:-}" ]; then
  table pod "[\"kubectl\", \"exec\", \"--stdin\", \"--quiet\", \"$JP_SCALE_POD\", \"--\"]" 'env = ["KUBECONFIG"]'
  echo "scale: launcher pod: doctor, a tree and a batch" >&2
  works pod
  fault "kubectl is killed" pod lost kill_kubectl
  fault "what kubectl exec has started is killed" pod lost kill_worker
  fault "the owner is killed" pod lost kill_owner
  fault "Ctrl-C" pod cancelled interrupt_owner
else
  untried+=", kubectl (JP_SCALE_POD names no pod)"
fi
echo "scale: NOT tried: $untried" >&2
