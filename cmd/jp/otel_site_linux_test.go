package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"jp/cmd/jp/internal/test/otlp"
	"jp/convstore"
)

const (
	collectorKey = "collector-key-4711"
	saidSecret   = "the heron nests" // by people and models, in what follows

	// nobody is an address where no collector is: the port of one that was closed may be another
	// test's by now.
	nobody = "http://127.0.0.1:1"
)

// otelSite has a root that sends two leads at once, each of whom sends a leaf, which calls a local
// tool.
func otelSite(t *testing.T) *site {
	role := func(model, tools string) string {
		return "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"script/" + model + "\"\n" + tools
	}
	const query = "[conversation.tools.jp_query]\nsource = \"delegation\"\nrun = \"unattended\"\n"
	const environ = `
[conversation.tools.show_env]
source = "local"
description = "Shows its environment."
command = "env"
run = "unattended"
`
	return newSite(t, map[string]string{
		".jp/config.toml": "[assistant]\nmodel = \"script/main.toml\"\n" + query + environ + "[delegation]\nprofiles = [\"agent/lead\"]\nmax_depth = 2\n",
		".jp/config/agent/lead.toml": role("lead.toml", query+environ+`
[delegation]
profiles = ["agent/leaf"]
max_depth = 1
`),
		".jp/config/agent/leaf.toml": role("leaf.toml", environ),
		"main.toml": `
[[rule]]
round = 1
reasoning = "both at once"
text = "I ask where ` + saidSecret + `."
usage = { input = 10, output = 4, cache_read = 100, cache_write = 20 }
tool_calls = [
  { name = "jp_query", arguments = { config = "agent/lead", query = "north, ` + saidSecret + `" } },
  { name = "jp_query", arguments = { config = "agent/lead", query = "south, ` + saidSecret + `" } },
]
[[rule]]
text = "` + saidSecret + ` in both."
`,
		"lead.toml": `
[[rule]]
round = 1
tool_calls = [{ name = "jp_query", arguments = { config = "agent/leaf", query = "look, ` + saidSecret + `" } }]
[[rule]]
text = "` + saidSecret + ` there."
`,
		"leaf.toml": `
[[rule]]
round = 1
attempt = 1
error = { kind = "overloaded", status = 529, message = "` + saidSecret + `", retry_after = "1ms" }
[[rule]]
round = 1
tool_calls = [{ name = "show_env", arguments = {} }, { name = "shwo_env", arguments = {} }]
[[rule]]
text = "` + saidSecret + ` here."
`,
	})
}

// traced are the variables of a traced run.
func traced(url string, more ...string) []string {
	return append([]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + url, "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20" + collectorKey,
	}, more...)
}

// forest draws spans as trees, siblings by name and start, each with the attributes that show
// leaves in.
func forest(spans []otlp.Span, show func(otlp.Span) string) string {
	below := map[string][]otlp.Span{}
	known := map[string]bool{}
	for _, s := range spans {
		known[s.ID] = true
	}
	for _, s := range spans {
		parent := s.Parent
		if !known[parent] {
			parent = ""
		}
		below[parent] = append(below[parent], s)
	}
	var b strings.Builder
	var draw func(id, indent string)
	draw = func(id, indent string) {
		list := below[id]
		slices.SortFunc(list, func(a, b otlp.Span) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Start, b.Start))
		})
		for _, s := range list {
			fmt.Fprintf(&b, "%s%s%s\n", indent, s.Name, show(s))
			draw(s.ID, indent+"  ")
		}
	}
	draw("", "")
	return b.String()
}

// state is how a span ended, with the names of its events.
func state(s otlp.Span) string {
	text := ""
	if v, ok := s.Attrs["jp.state"]; ok {
		text += fmt.Sprint(" ", v)
	}
	if s.Failed {
		text += fmt.Sprint(" FAILED ", s.Attrs["error.type"])
	}
	if code, ok := s.Attrs["http.response.status_code"]; ok {
		text += fmt.Sprint(" ", code)
	}
	for _, e := range s.Events {
		if e.Name == "jp.delegation.queued" {
			continue // whether one waits for a slot is the moment's
		}
		text += " " + strings.TrimPrefix(e.Name, "jp.")
		if v, ok := e.Attrs["jp.state"]; ok {
			text += fmt.Sprint("=", v)
		}
	}
	return text
}

// keyless looks for the collector's key, and for what goes with it, where a tool or a reader could
// find it.
func (s *site) keyless(t *testing.T) {
	t.Helper()
	tools := 0
	for _, conv := range s.conversations() {
		for _, ev := range s.events(conv.ID) {
			r, ok := ev.Body.(convstore.ToolResult)
			if !ok || !strings.Contains(r.Text, "PATH=") {
				continue
			}
			tools++
			if strings.Contains(r.Text, "OTEL_") || strings.Contains(r.Text, collectorKey) || strings.Contains(r.Text, "TRACEPARENT") {
				t.Errorf("the environment of a tool:\n%s", r.Text)
			}
		}
	}
	if tools == 0 {
		t.Error("no tool has told its environment")
	}
	logs, err := filepath.Glob(filepath.Join(s.home, "state", "jp", "jp.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no log: %v", err)
	}
	for _, name := range logs {
		if data, err := os.ReadFile(name); err != nil || strings.Contains(string(data), collectorKey) {
			t.Errorf("%s: %v, holds the key", name, err)
		}
	}
}
