package main

import (
	"encoding/json"
	"fmt"
	"net"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"jp/cmd/jp/internal/model/script"
	"jp/cmd/jp/internal/test/otlp"
	"jp/cmd/jp/internal/test/wire"
	"jp/convstore"
)

// TestTraceTree: a tree of processes is one trace, whose spans hang together and name what they
// are, and in which nothing stands of what was said.
func TestTraceTree(t *testing.T) {
	t.Parallel()
	c := otlp.New(nil)
	defer c.Close()
	s := otelSite(t)
	const caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	s.more = traced(c.URL, "TRACEPARENT="+caller, "TRACESTATE=vendor=1", "OTEL_SERVICE_NAME=birds")
	out, exit := s.jp("query", "--new", "--title", "root", "where?")
	if exit != 0 || strings.Contains(out, "warning") || strings.Contains(out, collectorKey) {
		t.Fatalf("exit %d:\n%s", exit, out)
	}
	spans := c.Spans()
	const lead = `
  execute_tool jp_query ok delegation.started delegation.ended=ok
    invoke_agent agent/lead ok
      chat lead.toml
      chat lead.toml
      execute_tool jp_query ok delegation.started delegation.ended=ok
        invoke_agent agent/leaf ok
          chat leaf.toml wait go_on
          chat leaf.toml
          execute_tool show_env ok
          execute_tool shwo_env error FAILED refused`
	const want = `invoke_agent ok
  chat main.toml
  chat main.toml` + lead + lead + "\n"
	if got := forest(spans, state); got != want {
		t.Errorf("spans:\n%s\nwant:\n%s", got, want)
	}

	ids := map[string]convstore.Conversation{}
	for _, conv := range s.conversations() {
		ids[conv.ID.String()] = conv
	}
	byID := map[string]otlp.Span{}
	for _, sp := range spans {
		byID[sp.ID] = sp
	}
	for _, sp := range spans {
		if sp.Trace != "4bf92f3577b34da6a3ce929d0e0e4736" || sp.State != "vendor=1" || sp.Resource["service.name"] != "birds" {
			t.Errorf("%s: trace %s, state %q, service %v", sp.Name, sp.Trace, sp.State, sp.Resource["service.name"])
		}
		if sp.End < sp.Start || sp.Kind.String() != map[bool]string{true: "SPAN_KIND_CLIENT", false: "SPAN_KIND_INTERNAL"}[strings.HasPrefix(sp.Name, "chat ")] {
			t.Errorf("%s: %v from %d to %d", sp.Name, sp.Kind, sp.Start, sp.End)
		}
		conv, ok := ids[fmt.Sprint(sp.Attrs["gen_ai.conversation.id"])]
		if !ok || conv.Profile != "" && sp.Attrs["gen_ai.agent.name"] != conv.Profile {
			t.Errorf("%s: of conversation %v and agent %v", sp.Name, sp.Attrs["gen_ai.conversation.id"], sp.Attrs["gen_ai.agent.name"])
		}
		if _, ok := byID[sp.Parent]; !ok && sp.Parent != "00f067aa0ba902b7" {
			t.Errorf("%s: its parent %s is nowhere", sp.Name, sp.Parent)
		}
		// Another process's span, and no other, names its parent as remote.
		if remote := sp.Flags&0x200 != 0; remote != strings.HasPrefix(sp.Name, "invoke_agent") {
			t.Errorf("%s: flags %x", sp.Name, sp.Flags)
		}
	}

	all := map[string]map[string]any{} // one of each
	for _, sp := range spans {
		if _, ok := all[sp.Name]; !ok {
			all[sp.Name] = sp.Attrs
		}
	}
	root := s.all()["root"].ID.String()
	for name, want := range map[string]map[string]any{
		"invoke_agent": {
			"gen_ai.operation.name": "invoke_agent", "gen_ai.provider.name": "script", "gen_ai.request.model": "main.toml",
			"gen_ai.conversation.id": root, "jp.turn": int64(1), "jp.state": "ok", "jp.cost_usd": 0.0,
		},
		"chat main.toml": {
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "script", "gen_ai.request.model": "main.toml", "gen_ai.request.stream": true,
			"gen_ai.conversation.id": root, "gen_ai.usage.input_tokens": int64(130), "gen_ai.usage.output_tokens": int64(4),
			"gen_ai.usage.cache_read.input_tokens": int64(100), "gen_ai.usage.cache_write.input_tokens": int64(20),
			"gen_ai.response.finish_reasons": []any{"tool_call"},
		},
		"execute_tool shwo_env": {
			"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "shwo_env", "gen_ai.tool.type": "function", "gen_ai.agent.name": "agent/leaf",
			"error.type": "refused", "jp.state": "error",
		},
	} {
		got := all[name]
		for _, differs := range []string{"gen_ai.tool.call.id"} {
			delete(got, differs)
		}
		if name == "invoke_agent" { // of both replies
			delete(got, "gen_ai.usage.input_tokens")
			delete(got, "gen_ai.usage.output_tokens")
			delete(got, "gen_ai.usage.cache_read.input_tokens")
			delete(got, "gen_ai.usage.cache_write.input_tokens")
		}
		if name == "execute_tool shwo_env" {
			delete(got, "gen_ai.conversation.id")
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %v\nwant %v", name, got, want)
		}
	}
	for _, r := range c.Requests() {
		if r.Header.Get("Authorization") != "Bearer "+collectorKey {
			t.Error("a request without the key")
		}
		if strings.Contains(string(r.Body), saidSecret) || strings.Contains(string(r.Body), collectorKey) {
			t.Errorf("content or a key in %q", r.Body)
		}
	}
	s.keyless(t)
}

// TestTraceContent: what is said is recorded where somebody asks for it, in the form of the
// conventions.
func TestTraceContent(t *testing.T) {
	t.Parallel()
	c := otlp.New(nil)
	defer c.Close()
	s := otelSite(t)
	s.more = traced(c.URL, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true")
	if out, exit := s.jp("query", "--new", "--title", "root", "where?"); exit != 0 {
		t.Fatalf("exit %d:\n%s", exit, out)
	}
	var first, last, tool map[string]any
	for _, sp := range c.Spans() {
		switch {
		case sp.Name == "chat main.toml" && first == nil:
			first = sp.Attrs
		case sp.Name == "chat main.toml":
			last = sp.Attrs
		case sp.Name == "execute_tool shwo_env":
			tool = sp.Attrs
			if sp.Message == "" {
				t.Error("no message of a failure")
			}
		}
	}
	same := func(attr any, want string) {
		t.Helper()
		var got, wanted any
		if err := json.Unmarshal([]byte(fmt.Sprint(attr)), &got); err != nil {
			t.Errorf("%v in %v", err, attr)
		}
		if err := json.Unmarshal([]byte(want), &wanted); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, wanted) {
			t.Errorf("got  %v\nwant %v", attr, want)
		}
	}
	same(first["gen_ai.input.messages"], `[{"role":"user","parts":[{"type":"text","content":"where?"}]}]`)
	call := func(id, where string) string {
		return `{"type":"tool_call","id":"` + id + `","name":"jp_query","arguments":{"config":"agent/lead","query":"` + where + `, ` + saidSecret + `"}}`
	}
	var said []struct {
		Parts []struct{ ID string }
	}
	if err := json.Unmarshal([]byte(fmt.Sprint(first["gen_ai.output.messages"])), &said); err != nil || len(said) != 1 || len(said[0].Parts) != 4 {
		t.Fatalf("%v in %v", err, first["gen_ai.output.messages"])
	}
	same(first["gen_ai.output.messages"], `[{"role":"assistant","finish_reason":"tool_call","parts":[{"type":"reasoning","content":"both at once"},
		{"type":"text","content":"I ask where `+saidSecret+`."},`+call(said[0].Parts[2].ID, "north")+`,`+call(said[0].Parts[3].ID, "south")+`]}]`)
	same(last["gen_ai.output.messages"], `[{"role":"assistant","finish_reason":"stop","parts":[{"type":"text","content":"`+saidSecret+` in both."}]}]`)
	if !strings.Contains(fmt.Sprint(last["gen_ai.input.messages"]), `"type":"tool_call_response"`) || !strings.Contains(fmt.Sprint(first["gen_ai.system_instructions"]), `"type":"text"`) {
		t.Errorf("no results in %v, or no text in %v", last["gen_ai.input.messages"], first["gen_ai.system_instructions"])
	}
	if tool["gen_ai.tool.call.arguments"] != "{}" || !strings.HasPrefix(fmt.Sprint(tool["gen_ai.tool.call.result"]), "error: unknown tool") {
		t.Errorf("tool: %v", tool)
	}
	for _, r := range c.Requests() {
		if strings.Contains(string(r.Body), collectorKey) {
			t.Error("the key in a request's body")
		}
	}
}

// TestTraceEnds: however a sub-agent ends, the span of the call says so, even when the sub-agent
// can no longer say anything.
func TestTraceEnds(t *testing.T) {
	for _, tt := range []struct {
		cause string
		do    func(s *site, root int)
		want  string
	}{
		{"answer", nil, `
  execute_tool jp_query ok delegation.started delegation.ended=ok
    invoke_agent agent/child ok
      chat child.toml`},
		{"rounds", nil, `
  execute_tool jp_query partial delegation.started delegation.ended=partial
    invoke_agent agent/child partial
      chat child.toml
      chat child.toml
      chat child.toml
      execute_tool fs_list_files ok`},
		{"refuse", nil, `
  execute_tool jp_query refused FAILED refused delegation.started delegation.ended=refused
    invoke_agent agent/child refused FAILED refused
      chat child.toml`},
		{"overload", nil, `
  execute_tool jp_query error FAILED error delegation.started delegation.ended=error
    invoke_agent agent/child error FAILED overloaded 529
      chat child.toml FAILED overloaded 529`},
		{"hang until SIGTERM", func(s *site, _ int) { s.signal(syscall.SIGTERM, s.running("--root-id=")...) }, `
  execute_tool jp_query cancelled FAILED cancelled delegation.started delegation.ended=cancelled
    invoke_agent agent/child cancelled FAILED cancelled
      chat child.toml FAILED cancelled`},
		{"hang until SIGKILL", func(s *site, _ int) { s.signal(syscall.SIGKILL, s.running("--root-id=")...) }, `
  execute_tool jp_query killed FAILED killed delegation.started delegation.ended=killed`},
	} {
		t.Run(tt.cause, func(t *testing.T) {
			t.Parallel()
			c := otlp.New(nil)
			defer c.Close()
			s := endsSite(t, "2m", fmt.Sprintf("query = %q", tt.cause))
			s.more = traced(c.URL)
			cmd, out := s.start(nil, "jp", "query", "--new", "--title", "caller", tt.cause)
			if tt.do != nil {
				s.eventually("the sub-agent's turn", func() bool {
					id := s.all()[tt.cause].ID
					return id != 0 && len(s.events(id)) > 0
				})
				tt.do(s, cmd.Process.Pid)
			}
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
			want := "invoke_agent ok\n  chat main.toml\n  chat main.toml" + tt.want + "\n"
			if got := forest(c.Spans(), state); got != want {
				t.Errorf("spans:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// TestTraceNobodyThere: a collector that is not there, or takes a request and never answers,
// changes nothing of a run but one warning, however many processes meet it.
func TestTraceNobodyThere(t *testing.T) {
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deaf.Close() })
	for name, url := range map[string]string{"gone": nobody, "deaf": "http://" + deaf.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := otelSite(t)
			// The end of a run has a time of its own: this one alone would be an hour.
			s.more = traced(url, "OTEL_EXPORTER_OTLP_TIMEOUT=3600000")
			out, exit := s.jp("query", "--new", "--title", "root", "where?")
			if exit != 0 || strings.Count(out, "warning") != 1 || strings.Count(out, "jp: warning: traces: ") != 1 ||
				strings.Contains(out, collectorKey) || !strings.Contains(out, saidSecret+" in both.") {
				t.Errorf("exit %d:\n%s", exit, out)
			}
			s.keyless(t)
		})
	}
}

// TestTraceLastWord: a signal that comes while a sub-agent still sends its spans ends the sending,
// and changes nothing of how the sub-agent has ended.
func TestTraceLastWord(t *testing.T) {
	t.Parallel()
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deaf.Close() })
	s := endsSite(t, "2m", `query = "rounds"`)
	s.more = traced("http://"+deaf.Addr().String(), "OTEL_EXPORTER_OTLP_TIMEOUT=3600000")
	cmd, out := s.start(nil, "jp", "query", "--new", "--title", "caller", "go")
	s.eventually("the end of the sub-agent's turn", func() bool { return s.all()["rounds"].Status == convstore.Status(convstore.StatePartial) })
	for _, pid := range s.running("--root-id=") {
		_ = syscall.Kill(pid, syscall.SIGTERM) // it sends for a second, and may have ended by now
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "told: partial") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// TestTraceSampling: what the root does not record, nobody below it does.
func TestTraceSampling(t *testing.T) {
	t.Parallel()
	c := otlp.New(nil)
	defer c.Close()
	s := otelSite(t)
	s.more = traced(c.URL, "OTEL_TRACES_SAMPLER=parentbased_always_off")
	if out, exit := s.jp("query", "--new", "where?"); exit != 0 {
		t.Fatalf("exit %d:\n%s", exit, out)
	}
	if n := len(c.Requests()); n != 0 {
		t.Errorf("%d requests, want none", n)
	}
}

// TestTraceBatch: the sub-agents of a batch are in one trace.
func TestTraceBatch(t *testing.T) {
	t.Parallel()
	c := otlp.New(nil)
	defer c.Close()
	s := endsSite(t, "2m", `query = ""`)
	s.stdin = "\"answer\"\n\"overload\"\n"
	s.more = traced(c.URL)
	if out, exit := s.jp("batch", "-c", "agent/child", "--parallel", "1"); exit != 1 {
		t.Fatalf("exit %d:\n%s", exit, out)
	}
	want := `invoke_workflow jp batch error FAILED error delegation.started delegation.ended=ok delegation.started delegation.ended=error
  invoke_agent agent/child ok
    chat child.toml
  invoke_agent agent/child error FAILED overloaded 529
    chat child.toml FAILED overloaded 529
`
	if got := forest(c.Spans(), state); got != want {
		t.Errorf("spans:\n%s\nwant:\n%s", got, want)
	}
}

// TestTraceServed: a server's calls are traces of their own, one for each, with the sub-agents that
// they ran; so are the turns that an editor asks for.
func TestTraceServed(t *testing.T) {
	t.Parallel()
	c := otlp.New(nil)
	defer c.Close()
	s := endsSite(t, "2m", `query = "answer"`)
	s.more = traced(c.URL)
	client := serveMCP(s)
	for range 2 {
		if text, err := client.ask(t.Context(), "jp_query", map[string]any{"config": "agent/child", "query": "answer"}); err != nil || !strings.Contains(text, `status="ok"`) {
			t.Fatalf("jp_query = %s, %v", text, err)
		}
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	editor := startEditor(s)
	id := editor.open(s.dir)
	if got := editor.say(id, "go"); got != "end_turn" {
		t.Fatalf("stop = %s\n%s", got, editor.stderr)
	}
	editor.end()
	const call = `execute_tool jp_query ok delegation.started delegation.ended=ok
  invoke_agent agent/child ok
    chat child.toml
`
	const turn = `invoke_agent ok
  chat main.toml
  chat main.toml
  execute_tool jp_query ok delegation.started delegation.ended=ok
    invoke_agent agent/child ok
      chat child.toml
`
	if got, want := forest(c.Spans(), state), call+call+turn; got != want {
		t.Errorf("spans:\n%s\nwant:\n%s", got, want)
	}
	traces := map[string]bool{}
	for _, sp := range c.Spans() {
		traces[sp.Trace] = true
	}
	if len(traces) != 3 {
		t.Errorf("%d traces, want 3", len(traces))
	}
}

// TestTraceTitle: what is done for a turn after its answer is in its trace.
func TestTraceTitle(t *testing.T) {
	t.Parallel()
	c := otlp.New(nil)
	defer c.Close()
	s := newSite(t, map[string]string{
		".jp/config.toml": "[assistant]\nmodel = \"script/main.toml\"\n[conversation.title]\nmodel = \"script/main.toml\"\n",
		"main.toml":       "[[rule]]\nsystem = \"title\"\ntext = \"A title\"\n[[rule]]\ntext = \"an answer\"\n",
	})
	s.more = traced(c.URL)
	if out, exit := s.jp("query", "--new", "ask"); exit != 0 || s.all()["A title"].ID == 0 {
		t.Fatalf("exit %d:\n%s", exit, out)
	}
	if got, want := forest(c.Spans(), state), "invoke_agent ok\n  chat main.toml\n  chat main.toml\n"; got != want {
		t.Errorf("spans:\n%s\nwant:\n%s", got, want)
	}
}

// TestTraceModels: what a provider says of its reply stands in the span, whatever its wire format,
// and no key.
func TestTraceModels(t *testing.T) {
	answers, err := script.Parse("model.toml", []byte("[[rule]]\ntext = \"done\"\nusage = { input = 7, output = 3, cache_read = 2 }\n"))
	if err != nil {
		t.Fatal(err)
	}
	server, err := wire.Start(answers.Stream("wire", ""), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	const key = "sk-the-key-of-this-test"
	for _, tt := range []struct{ model, api, provider, id string }{
		{"anthropic/claude-sonnet-4-5", "", "anthropic", "msg_wire"},
		{"openai/gpt-test", "chat", "openai", "chatcmpl-wire"},
		{"openai/gpt-test", "responses", "openai", "resp_wire"},
	} {
		t.Run(tt.id, func(t *testing.T) {
			t.Parallel()
			c := otlp.New(nil)
			defer c.Close()
			s := newSite(t, map[string]string{".jp/config.toml": ""})
			s.more = traced(c.URL, "ANTHROPIC_BASE_URL="+server.URL, "OPENAI_BASE_URL="+server.URL+"/v1", "ANTHROPIC_API_KEY="+key, "OPENAI_API_KEY="+key,
				"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true")
			if tt.api != "" {
				s.more = append(s.more, "JP_CFG_PROVIDERS__LLM__OPENAI__API="+tt.api)
			}
			if out, exit := s.jp("query", "--new", "--model", tt.model, "--cfg", "assistant.parameters.temperature:=0.5", "ask"); exit != 0 {
				t.Fatalf("exit %d:\n%s", exit, out)
			}
			spans := c.Spans()
			if len(spans) != 2 {
				t.Fatalf("%d spans, want 2", len(spans))
			}
			got := spans[0].Attrs
			for _, content := range []string{"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions", "gen_ai.request.max_tokens"} {
				delete(got, content)
			}
			name := tt.model[strings.Index(tt.model, "/")+1:]
			want := map[string]any{
				"gen_ai.operation.name": "chat", "gen_ai.provider.name": tt.provider, "gen_ai.request.model": name, "gen_ai.request.stream": true,
				"gen_ai.request.temperature": 0.5, "gen_ai.response.model": name, "gen_ai.response.id": tt.id, "server.address": "127.0.0.1",
				"server.port": got["server.port"], "gen_ai.usage.input_tokens": int64(9), "gen_ai.usage.output_tokens": int64(3),
				"gen_ai.usage.cache_read.input_tokens": int64(2), "gen_ai.response.finish_reasons": []any{"stop"},
				"gen_ai.conversation.id": spans[1].Attrs["gen_ai.conversation.id"],
			}
			if spans[0].Name != "chat "+name || fmt.Sprint(got["server.port"]) != port || !reflect.DeepEqual(got, want) {
				t.Errorf("%s:\ngot  %v\nwant %v", spans[0].Name, got, want)
			}
			for _, r := range c.Requests() {
				if strings.Contains(string(r.Body), key) {
					t.Error("a key in a request's body")
				}
			}
		})
	}
}
