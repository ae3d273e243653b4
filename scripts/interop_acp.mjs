// A client of the Agent Client Protocol, made with the official TypeScript SDK, that drives `jp acp`.
// interop.sh runs it.
// usage: node interop_acp.mjs SDK JP FOLDER
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [sdk, jp, cwd] = process.argv.slice(2);
const acp = await import(sdk);
const child = spawn(jp, ["acp"], { stdio: ["pipe", "pipe", "inherit"], cwd: "/" });
const ended = new Promise((resolve) => child.on("close", resolve));
const seen = [];
const asked = [];
const expect = (name, ok, ...what) => {
  if (!ok) {
    console.log(`FAIL ${name}:`, ...what.map((w) => JSON.stringify(w)));
    process.exit(1);
  }
  console.log(`ok   ${name}`);
};
const app = acp
  .client({ name: "interop" })
  .onNotification("session/update", (c) => void seen.push(c.params.update))
  .onRequest("session/request_permission", (c) => {
    asked.push(c.params.toolCall.title);
    return { outcome: { outcome: "selected", optionId: c.params.options.find((o) => o.kind === "allow_once").optionId } };
  });
await app.connectWith(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)), async (agent) => {
  const init = await agent.request("initialize", { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
  expect("acp: initialize", init.protocolVersion === 1 && init.agentInfo.name === "jp", init);
  const { sessionId, configOptions } = await agent.request("session/new", { cwd, mcpServers: [] });
  expect("acp: session/new, with options", configOptions.map((o) => o.id).join() === "model,reasoning,role", configOptions);
  const prompt = (text) => agent.request("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
  let r = await prompt("write");
  const kinds = seen.map((u) => u.sessionUpdate + (u.status ? " " + u.status : "")).join(", ");
  expect("acp: session/prompt, with a question for permission", r.stopReason === "end_turn" && asked.join() === "fs_create_file new.txt", r, asked);
  expect(
    "acp: session/update",
    kinds === "tool_call pending, tool_call_update in_progress, tool_call_update completed, agent_message_chunk, session_info_update",
    kinds,
  );
  const waiting = prompt("wait");
  while (!seen.some((u) => u.title === "wait {}")) await new Promise((resolve) => setTimeout(resolve, 10));
  await agent.notify("session/cancel", { sessionId });
  r = await waiting;
  expect("acp: session/cancel", r.stopReason === "cancelled", r);
  const list = await agent.request("session/list", { cwd });
  expect("acp: session/list", list.sessions[0].sessionId === sessionId && list.sessions[0].title === "write", list);
  await agent.request("session/close", { sessionId });
  seen.length = 0;
  await agent.request("session/load", { sessionId, cwd, mcpServers: [] });
  expect("acp: session/close and session/load", seen[0]?.content?.text === "write" && seen.some((u) => u.sessionUpdate === "tool_call"), seen);
  const error = await agent.request("session/prompt", { sessionId, prompt: [] }).catch((e) => e);
  expect("acp: an error", error.code === -32602, error);
});
child.stdin.end();
expect("acp: ends with its client", (await ended) === 0);
