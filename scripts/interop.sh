#!/usr/bin/env bash
# Runs jp against clients of others, and against its own. `jp mcp serve` serves the command line of the
# official MCP inspector, and jp's client. `jp acp` serves a client made with the official SDK of the Agent
# Client Protocol. `jp query` serves a client made with the official Claude agent SDK. The clients come
# from the npm registry: this needs node and npm. With CLIENTS=FOLDER they are installed there and used
# again. Each step says when it begins and has a time limit, so that a slow registry or a hang shows.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts=$PWD/scripts
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
step() { echo "==   $(date +%T) $*"; }
step 'go build (minutes when nothing of it is cached)'
CGO_ENABLED=0 timeout 900 go build -tags urfave_cli_no_docs -o "$work/jp" ./cmd/jp
clients=${CLIENTS:-$work/clients}
mkdir -p "$clients"
step 'npm install'
# Without the agent program, which the agent SDK has for each platform.
timeout 600 npm install --loglevel error --no-audit --no-fund --omit=optional --fetch-timeout 60000 --prefix "$clients" \
	@modelcontextprotocol/inspector@2.12.0 @agentclientprotocol/sdk@2.4.0 @anthropic-ai/claude-agent-sdk@0.3.332 ||
	{ echo "FAIL npm install: status $?"; exit 1; }
modules=$clients/node_modules

export HOME=$work/home
unset JP_STORE JP_TRUST_WORKSPACE XDG_CONFIG_HOME XDG_STATE_HOME XDG_DATA_HOME
mkdir -p "$HOME/.config/jp" "$work/ws/.jp/config/agent"
cd "$work/ws"
cat > .jp/config.toml <<'EOF'
[assistant]
model = "script/reader.toml"
[delegation]
profiles = ["agent/reader"]
EOF
cat > .jp/config/agent/reader.toml <<'EOF'
[loader]
reset = "none"
[assistant]
model = "script/reader.toml"
EOF
cat > reader.toml <<'EOF'
[[rule]]
text = "the answer"
EOF
cat > "$HOME/.config/jp/config.toml" <<EOF
[providers.mcp.jp]
command = "env"
args = ["-u", "JP_CALL_FD", "$work/jp", "mcp", "serve", "-q"]
EOF
"$work/jp" trust --yes -q > /dev/null
# One root conversation for all: each client finds what the one before has made.
root=$("$work/jp" conversation new \
	--cfg 'conversation.tools.jp_query.run=unattended' --cfg 'conversation.tools.jp_batch_query.run=unattended')

inspect() { timeout 60 "$modules/.bin/mcp-inspector" --cli "$work/jp" mcp serve -q --root-id "$root" "$@"; }
expect() { # NAME TEXT COMMAND...
	local name=$1 text=$2 out
	shift 2
	out=$("$@" 2>&1) || { echo "FAIL $name: status $?: $out"; exit 1; }
	grep -qF -- "$text" <<< "$out" || { echo "FAIL $name: no $text in: $out"; exit 1; }
	echo "ok   $name"
}
step 'MCP inspector'
expect 'inspector: tools/list, the enum of profiles' '"agent/reader"' inspect --method tools/list
expect 'inspector: tools/call jp_query' 'the answer' inspect --method tools/call --tool-name jp_query --tool-arg config=agent/reader --tool-arg 'query=what is it?'
expect 'inspector: tools/call jp_batch_query' '\"tokens_used\":' inspect --method tools/call --tool-name jp_batch_query \
	--tool-arg 'queries=[{"config":"agent/reader","query":"one"},{"config":"agent/reader","query":"two"}]'
expect 'inspector: tools/call jp_conversation_list' 'what is it?' inspect --method tools/call --tool-name jp_conversation_list
expect 'inspector: resources/templates/list' 'jp://conversation/{id}' inspect --method resources/templates/list
expect 'inspector: resources/list' '"title": "one"' inspect --method resources/list
uri=$(inspect --method resources/list 2>/dev/null | grep -o 'jp://conversation/jp-c[0-9]*' | head -1)
expect 'inspector: resources/read' 'the answer' inspect --method resources/read --uri "$uri"
step 'jp as its own client'
expect 'jp: approves itself' 'jp_query' "$work/jp" mcp approve jp
expect 'jp: calls jp_query' 'the answer' "$work/jp" tool run ask --cfg 'conversation.tools.ask.source=mcp.jp.jp_query' \
	--args '{"config":"agent/reader","query":"what is it?"}'

mkdir -p "$work/editor/.jp"
cd "$work/editor"
cat > .jp/config.toml <<'EOF'
[assistant]
model = "script/main.toml"
[conversation.tools.fs_create_file]
[conversation.tools.wait]
source = "local"
description = "Waits."
command = "sleep 1000"
run = "unattended"
EOF
cat > main.toml <<'EOF'
[[rule]]
query = "write"
round = 1
tool_calls = [{ name = "fs_create_file", arguments = { path = "new.txt", content = "new" } }]
[[rule]]
query = "wait"
round = 1
tool_calls = [{ name = "wait", arguments = {} }]
[[rule]]
text = "the answer"
EOF
"$work/jp" trust --yes -q > /dev/null
step 'ACP SDK'
timeout 120 node "$scripts/interop_acp.mjs" "$modules/@agentclientprotocol/sdk/dist/v1/stable/acp.js" "$work/jp" "$work/editor"

mkdir -p "$work/agent-ws/.jp/config/agent"
cd "$work/agent-ws"
echo 'a note' > note.txt
cat > .jp/config.toml <<'EOF'
[assistant]
model = "script/root.toml"
[conversation.tools.fs_read_file]
source = "builtin"
run = "unattended"
[conversation.tools.fs_create_file]
source = "builtin"
[conversation.tools.wait]
source = "local"
description = "Waits."
command = "sleep 1000"
run = "unattended"
[conversation.tools.jp_query]
source = "delegation"
run = "unattended"
[delegation]
profiles = ["agent/leaf"]
EOF
cat > .jp/config/agent/leaf.toml <<'EOF'
[loader]
reset = "none"
[assistant]
model = "script/leaf.toml"
EOF
cat > leaf.toml <<'EOF'
[[rule]]
text = "leaf"
EOF
cat > root.toml <<'EOF'
[[rule]]
query = "fail"
error = { kind = "auth", status = 401, message = "no key" }
[[rule]]
query = "wait"
round = 1
tool_calls = [{ name = "wait", arguments = {} }]
[[rule]]
query = "make"
round = 1
tool_calls = [{ name = "fs_create_file", arguments = { path = "x", content = "y" } }]
[[rule]]
query = "look"
round = 1
text = "I look."
tool_calls = [
  { name = "fs_read_file", arguments = { path = "note.txt" } },
  { name = "jp_query", arguments = { config = "agent/leaf", query = "leaf" } },
]
usage = { input = 10, output = 5, cache_read = 2, cache_write = 1 }
[[rule]]
query = "look"
text = "Done."
usage = { input = 20, output = 5 }
[[rule]]
query = "loop"
tool_calls = [{ name = "fs_read_file", arguments = { path = "note.txt" } }]
[[rule]]
query = "data"
text = "{\"a\":1}"
[[rule]]
system = "Be loud."
text = "LOUD"
[[rule]]
turn = 1
text = "First."
[[rule]]
turn = 2
text = "Second."
[[rule]]
text = "Later."
EOF
"$work/jp" trust --yes -q > /dev/null
step 'agent SDK'
timeout 300 node "$scripts/interop_agent.mjs" "$modules/@anthropic-ai/claude-agent-sdk/sdk.mjs" "$work/jp" "$work/agent-ws"
step 'all of it passed'
