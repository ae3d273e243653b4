"use strict";
// Draws the trace that stands in #trace. Whatever comes from it is put on the page as text, never as markup.
(() => {
  const trace = JSON.parse(document.getElementById("trace").textContent);
  const began = Date.parse(trace.started_at), total = Math.max(trace.duration_ms, 0.001);
  const byID = new Map(), children = new Map();
  for (const span of trace.spans) {
    byID.set(span.id, span);
    const list = children.get(span.parent_id) || [];
    list.push(span);
    children.set(span.parent_id, list);
  }
  const $ = (id) => document.getElementById(id);
  // Characters that reorder text or are not seen are left out, so that what is read is what was written; but for joiners of emojis
  // and letters.
  const clean = (text) => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f]|(?![\u200c\u200d\ufe0f])[\p{Cf}\p{Default_Ignorable_Code_Point}]/gu, "");
  const make = (tag, className, text) => {
    const e = document.createElement(tag);
    if (className) e.className = className;
    if (text !== undefined) e.textContent = clean(text);
    return e;
  };
  const count = (n) => n.toLocaleString("en-US");
  const plural = (n, noun) => count(n) + " " + noun + (n === 1 ? "" : "s");
  const dollars = (usd) => usd === null ? "unknown" : "$" + usd.toFixed(9).replace(/\.?0+$/, "");
  const elapsed = (ms) => {
    if (ms < 1) return ms.toFixed(2) + "ms";
    if (ms < 1000) return Math.round(ms) + "ms";
    if (ms < 60000) return (ms / 1000).toFixed(ms < 10000 ? 2 : 1) + "s";
    const s = Math.floor(ms / 1000);
    return s < 3600 ? Math.floor(s / 60) + "m" + String(s % 60).padStart(2, "0") + "s" : Math.floor(s / 3600) + "h" + String(Math.floor(s / 60) % 60).padStart(2, "0") + "m";
  };
  const waiting = new Set(["running", "queued", "new", "partial", "interrupted"]);
  const tone = (span) => span.state === "ok" ? "" : waiting.has(span.state) ? " wait" : " bad";
  const about = (span) => span.input.trim().split("\n", 1)[0].slice(0, 200);
  const kinds = { turn: "turn", model_call: "model call", tool_call: "tool call", delegation: "delegation" };

  // The head of the page.
  document.title = clean(trace.conversation_id + " " + trace.title);
  $("title").append(clean(trace.title) || "Untitled", make("small", "", trace.conversation_id));
  const pairs = (list, rows) => {
    for (const [key, value] of rows) {
      if (value === "" || value === null || value === undefined) continue;
      const pair = make("div");
      pair.append(make("dt", "", key), make("dd", "", String(value)));
      list.append(pair);
    }
  };
  pairs($("sums"), [
    ["status", trace.status], ["time", elapsed(trace.duration_ms)], ["tokens", count(trace.tokens)], ["cost", dollars(trace.cost_usd)],
    ["delegations", count(trace.delegations)], ["model calls", count(trace.model_calls)], ["tool calls", count(trace.tool_calls)],
    ["began", trace.started_at.replace("T", " ").replace(/\.\d+Z$/, "Z")],
  ]);

  // The rows that are there: a row of a closed span's children is made when it is opened.
  const open = new Set(), large = trace.spans.length > 400;
  for (const span of trace.spans) if (children.has(span.id) && (!large || span.parent_id === "")) open.add(span.id);
  const rows = $("rows");
  let selected = null, shown = [];
  const hidden = (span) => span.kind === "model_call" && !$("show-model").checked || span.kind === "tool_call" && !$("show-tool").checked;
  const kids = (span) => (children.get(span.id) || []).filter((s) => !hidden(s));

  const left = (at) => (Math.min(Math.max(at - began, 0), total) / total * 100) + "%";
  const headRow = () => {
    const row = make("div", "row head");
    row.setAttribute("role", "row");
    for (const [cls, text] of [["name", "What"], ["state", "State"], ["number tokens", "Tokens"], ["number", "Time"]]) {
      const cell = make("div", cls, text);
      cell.setAttribute("role", "columnheader");
      row.append(cell);
    }
    const lane = make("div", "lane");
    lane.setAttribute("role", "columnheader");
    lane.setAttribute("aria-label", "Timeline");
    for (let i = 0; i <= 4; i++) {
      const tick = make("span", "tick", elapsed(total * i / 4).replace(/^0\.00ms$/, "0"));
      tick.style.left = (i * 25) + "%";
      lane.append(tick);
    }
    row.append(lane);
    return row;
  };
  const drawRow = (span, depth) => {
    const row = make("div", "row " + span.kind + tone(span) + (span.ended_at === null ? " open" : ""));
    row.setAttribute("role", "row");
    row.setAttribute("aria-level", depth + 1);
    row.setAttribute("aria-selected", span.id === selected);
    row.dataset.id = span.id;
    row.tabIndex = -1;
    const name = make("div", "name");
    name.setAttribute("role", "gridcell");
    name.style.paddingLeft = (depth * 18) + "px";
    const twist = make("span", "twist");
    if (kids(span).length) {
      twist.textContent = open.has(span.id) ? "▾" : "▸";
      row.setAttribute("aria-expanded", open.has(span.id));
    }
    name.append(twist, make("span", "mark"), make("b", "", span.name), make("span", "about", about(span)));
    if (span.reason && tone(span)) {
      const why = make("span", "why", span.reason);
      why.title = clean(span.reason);
      name.append(why);
    }
    const state = make("div", "state", span.kind === "model_call" && span.state === "ok" ? "" : span.state);
    const tokens = make("div", "number tokens", span.tokens ? count(span.tokens) : "");
    const time = make("div", "number", elapsed(span.duration_ms));
    const lane = make("div", "lane");
    for (const cell of [state, tokens, time, lane]) cell.setAttribute("role", "gridcell");
    const start = Date.parse(span.started_at), begun = span.delegation && span.delegation.begun_at ? Date.parse(span.delegation.begun_at) : start;
    if (begun > start) {
      const queued = make("div", "queued");
      queued.style.left = left(start);
      queued.style.width = ((begun - start) / total * 100) + "%";
      lane.append(queued);
    }
    const bar = make("div", "bar");
    bar.style.left = left(begun);
    bar.style.width = (Math.max(span.duration_ms - (begun - start), 0) / total * 100) + "%";
    lane.append(bar);
    lane.title = elapsed(start - began) + " to " + elapsed(start - began + span.duration_ms);
    row.append(name, state, tokens, time, lane);
    return row;
  };
  const draw = () => {
    const top = rows.scrollTop, list = document.createDocumentFragment();
    shown = [];
    list.append(headRow());
    const walk = (spans, depth) => {
      for (const span of spans) {
        if (hidden(span)) continue;
        list.append(drawRow(span, depth));
        shown.push(span.id);
        if (open.has(span.id)) walk(kids(span), depth + 1);
      }
    };
    walk(children.get("") || [], 0);
    rows.replaceChildren(list);
    rows.scrollTop = top;
    if (!shown.includes(selected)) selected = shown[0] || null;
    const row = rowOf(selected);
    if (row) row.tabIndex = 0;
  };
  const rowOf = (id) => [...rows.children].find((r) => r.dataset.id === id);

  const select = (id, focus) => {
    const before = rowOf(selected), row = rowOf(id);
    if (before) { before.tabIndex = -1; before.setAttribute("aria-selected", "false"); }
    selected = id;
    if (!row) return;
    row.tabIndex = 0;
    row.setAttribute("aria-selected", "true");
    if (focus) row.focus();
    if (!$("details").hidden) detail(byID.get(id));
  };
  const toggle = (id, want) => {
    if (!kids(byID.get(id)).length) return false;
    if (want === open.has(id)) return false;
    if (open.has(id)) open.delete(id); else open.add(id);
    draw();
    select(id, true);
    return true;
  };

  // The details of one span.
  const text = (panel, title, value, bytes) => {
    if (!bytes) return;
    panel.append(make("h3", "", title), make("pre", "", value));
    const given = new TextEncoder().encode(value).length;
    if (bytes > given) panel.append(make("p", "", plural(bytes - given, "byte") + " more are in the conversation"));
  };
  const detail = (span) => {
    const panel = $("details"), list = make("dl"), run = span.delegation, u = span.usage;
    panel.replaceChildren();
    const close = make("button", "", "close");
    close.type = "button";
    close.id = "close";
    close.addEventListener("click", leave);
    const add = (key, value) => {
      if (value === "" || value === null || value === undefined) return;
      list.append(make("dt", "", key), make("dd", "", String(value)));
    };
    add("kind", kinds[span.kind] || span.kind);
    add("state", span.state + (span.reason ? ": " + span.reason : ""));
    add("conversation", span.conversation_id + (run && run.removed ? " (removed)" : ""));
    add("turn", span.turn);
    add("started", span.started_at);
    add("ended", span.ended_at === null ? "not yet" : span.ended_at);
    add("time", elapsed(span.duration_ms));
    if (span.kind !== "tool_call") {
      add("tokens", count(u.input_tokens) + " in, " + count(u.output_tokens) + " out" +
        (u.cache_read_tokens + u.cache_write_tokens ? ", cache " + count(u.cache_read_tokens) + " read, " + count(u.cache_write_tokens) + " written" : ""));
      add("cost", dollars(span.cost_usd));
    }
    add("stop", span.stop);
    if (run) {
      add("title", run.title);
      add("profile", run.profile + (run.profile_hash ? " sha256:" + run.profile_hash.slice(0, 12) : ""));
      add("model", run.model);
      add("tool", run.tool);
      add("call", run.call);
      add("caller", run.caller_id);
      add("run", run.kind + ", depth " + run.depth + (run.pid ? ", pid " + run.pid : ""));
      add("tools", run.tools_allowed + " of " + run.tools_total + " allowed, " + run.tools_denied + " denied");
      add("grant", (run.grant_tokens === null ? "unlimited" : count(run.grant_tokens)) + " tokens, " + (run.grant_usd === null ? "unlimited cost" : dollars(run.grant_usd)));
    }
    panel.append(close, make("h2", "", span.name), list);
    text(panel, span.kind === "tool_call" ? "Arguments" : "Query", span.input, span.input_bytes);
    text(panel, span.kind === "tool_call" ? "Result" : span.kind === "model_call" ? "Said" : "Answer", span.output, span.output_bytes);
    panel.hidden = false;
  };
  const leave = () => {
    $("details").hidden = true;
    const row = rowOf(selected);
    if (row) row.focus();
  };

  rows.addEventListener("click", (e) => {
    const row = e.target.closest(".row");
    if (!row || !row.dataset.id) return;
    const id = row.dataset.id;
    select(id, true);
    if (e.target.classList.contains("twist")) toggle(id); else detail(byID.get(id));
  });
  rows.addEventListener("keydown", (e) => {
    const at = shown.indexOf(selected);
    if (at < 0) return;
    const span = byID.get(selected);
    const go = (to) => select(shown[Math.min(Math.max(to, 0), shown.length - 1)], true);
    switch (e.key) {
      case "ArrowDown": go(at + 1); break;
      case "ArrowUp": go(at - 1); break;
      case "PageDown": go(at + 15); break;
      case "PageUp": go(at - 15); break;
      case "Home": go(0); break;
      case "End": go(shown.length - 1); break;
      case "ArrowRight": if (!toggle(selected, true) && kids(span).length && open.has(selected)) go(at + 1); break;
      case "ArrowLeft": if (!toggle(selected, false) && byID.has(span.parent_id)) select(span.parent_id, true); break;
      case "Enter": case " ": detail(span); break;
      default: return;
    }
    e.preventDefault();
  });
  document.addEventListener("keydown", (e) => { if (e.key === "Escape" && !$("details").hidden) leave(); });
  $("expand").addEventListener("click", () => { for (const id of children.keys()) if (id) open.add(id); draw(); });
  $("collapse").addEventListener("click", () => { open.clear(); draw(); });
  for (const id of ["show-model", "show-tool"]) $(id).addEventListener("change", draw);
  draw();
})();
