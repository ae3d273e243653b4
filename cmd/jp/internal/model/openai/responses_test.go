package openai

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"jp/cmd/jp/internal/model"
	modeltest "jp/cmd/jp/internal/test/model"
	"jp/convstore"
)

// respond returns a provider of the Responses API whose server answers with body.
func respond(t testing.TB, url, body string) (model.Stream, *modeltest.Replay) {
	t.Helper()
	tr := &modeltest.Replay{Body: body}
	s, err := New(model.Config{Name: "openai", BaseURL: url, Key: "k", Client: &http.Client{Transport: tr}, MaxBytes: 1 << 20,
		Model: model.Info{ID: "openai/x", Name: "x", MaxOutput: 5000, API: model.Responses}})
	if err != nil {
		t.Fatal(err)
	}
	return s, tr
}

// named writes server-sent events under the names of their types.
func named(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		var e struct{ Type string }
		_ = json.Unmarshal([]byte(l), &e) // what is no JSON has no name
		b.WriteString("event: " + e.Type + "\ndata: " + l + "\n\n")
	}
	return b.String()
}

const (
	spoken    = `{"type":"response.output_text.delta","output_index":1,"delta":"a"}`
	message   = `{"type":"response.output_item.done","output_index":1,"item":{"type":"message","content":[{"type":"output_text","text":"a"}]}}`
	thought1  = `{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"h"}],"encrypted_content":"E1","status":null}}`
	thought2  = `{"type":"response.output_item.done","output_index":2,"item":{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"E2"}}`
	call1     = `{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","call_id":"c1","name":"t","arguments":"{\"a\":1}","status":"completed"}}`
	call2     = `{"type":"response.output_item.done","output_index":3,"item":{"type":"function_call","call_id":"c2","name":"u","arguments":"","status":"completed"}}`
	cut       = `{"type":"response.output_item.done","output_index":3,"item":{"type":"function_call","call_id":"c2","name":"u","arguments":"","status":"incomplete"}}`
	completed = `{"type":"response.completed","response":{"usage":{"input_tokens":9,"output_tokens":5,"input_tokens_details":{"cached_tokens":3,"cache_write_tokens":2}}}}`
	full      = `{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}`
)

func TestResponsesEvents(t *testing.T) {
	const told = `usage {"input_tokens":4,"output_tokens":5,"cache_read_tokens":3,"cache_write_tokens":2}` + "\n"
	const kept1 = `thought h||{"response_item":{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"h"}],"encrypted_content":"E1"}}` + "\n"
	const kept2 = `thought ||{"response_item":{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"E2"}}` + "\n"
	tests := []struct {
		name  string
		lines []string
		want  string
		err   string
	}{
		{"a smaller usage later", []string{strings.Replace(completed, "response.completed", "response.in_progress", 1), spoken, `{"type":"response.completed","response":{"usage":{"input_tokens":1,"output_tokens":1}}}`},
			"text a\n" + told + "stop end\n", ""},
		{"text", []string{spoken, message, completed}, "text a\n" + told + "stop end\n", ""},
		{"a cost, and reasoning that only the total has", []string{spoken, message,
			`{"type":"response.completed","response":{"usage":{"input_tokens":9,"output_tokens":5,"total_tokens":20,"cost":0.00015}}}`},
			"text a\nusage {\"input_tokens\":9,\"output_tokens\":11,\"cache_read_tokens\":0,\"cache_write_tokens\":0} cost 150000\nstop end\n", ""},
		{"text without deltas", []string{message, completed}, "text a\n" + told + "stop end\n", ""},
		{"reasoning without deltas", []string{thought1, spoken, completed}, "thinks h\n" + kept1 + "text a\n" + told + "stop end\n", ""},
		{"summaries in parts", []string{
			`{"type":"response.reasoning_summary_part.added"}`, `{"type":"response.reasoning_summary_text.delta","delta":"g"}`,
			`{"type":"response.reasoning_summary_part.added"}`, `{"type":"response.reasoning_summary_text.delta","delta":"h"}`, thought2, spoken, completed},
			"thinks g\nthinks \n\n\nthinks h\n" + strings.Replace(kept2, "thought ", "thought g\n\nh", 1) + "text a\n" + told + "stop end\n", ""},
		{"reasoning between calls", []string{thought1, call1, thought2, call2, completed},
			"thinks h\n" + kept1 + `call c1 t {"a":1}` + "\n" + kept2 + "call c2 u {}\n" + told + "stop tool_use\n", ""},
		{"a call that is said twice", []string{call1, thought2, call1, call2, completed},
			`call c1 t {"a":1}` + "\n" + kept2 + "call c2 u {}\n" + told + "stop tool_use\n", ""},
		{"a call that was cut off", []string{call1, cut, full}, `call c1 t {"a":1}` + "\nstop max_tokens\n", ""},
		{"a call that was cut off behind one without arguments", []string{call2, cut, full}, "call c2 u {}\nstop max_tokens\n", ""},
		{"a text that was cut off behind a call without arguments", []string{call2, spoken, full}, "text a\ncall c2 u {}\nstop max_tokens\n", ""},
		{"thinking that was cut off behind a call without arguments", []string{call2, `{"type":"response.output_item.added","output_index":1,"item":{"type":"reasoning"}}`, full},
			"call c2 u {}\nstop max_tokens\n", ""},
		{"only a call that was cut off", []string{cut, full}, "stop max_tokens\n", ""},
		{"filtered", []string{spoken, strings.Replace(full, "max_output_tokens", "content_filter", 1)}, "text a\nstop refusal\n", ""},
		{"refusal", []string{`{"type":"response.refusal.delta","delta":"no"}`, completed}, "text no\n" + told + "stop refusal\n", ""},
		{"incomplete, as completed", []string{spoken, `{"type":"response.completed","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`}, "text a\nstop max_tokens\n", ""},
		{"filtered, as completed", []string{`{"type":"response.completed","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}`}, "stop refusal\n", ""},
		{"failed, as completed", []string{spoken, `{"type":"response.completed","response":{"status":"failed","error":{"code":"server_error","message":"oops"}}}`}, "text a\n", "openai: server: oops"},
		{"an unknown status", []string{spoken, `{"type":"response.completed","response":{"status":"whim"}}`}, "text a\nstop max_tokens\n", ""},
		{"an unknown status without words", []string{`{"type":"response.completed","response":{"status":"whim"}}`}, "", `openai: stream: the reply says nothing and stopped for an unknown reason "whim"`},
		{"broken off", []string{spoken}, "text a\n", "openai: stream: the reply broke off"},
		{"failed", []string{spoken, `{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"slow down"}}}`}, "text a\n", "openai: rate_limit: slow down"},
		{"failed without a word", []string{`{"type":"response.failed","response":{"error":null}}`}, "", "openai: server: the provider reported an error without a message"},
		{"error beside the usage", []string{spoken, `{"type":"response.failed","error":{"message":"gone"},"response":{"usage":{"input_tokens":9,"output_tokens":5}}}`},
			"text a\n" + `usage {"input_tokens":9,"output_tokens":5,"cache_read_tokens":0,"cache_write_tokens":0}` + "\n", "openai: server: gone"},
		{"error event", []string{`{"type":"error","code":"server_error","message":"oops","param":null}`}, "", "openai: server: oops"},
		{"nameless call", []string{`{"type":"response.output_item.done","item":{"type":"function_call","call_id":"c"}}`}, "", "openai: stream: a tool call without a name"},
		{"items of other shapes", []string{`{"type":"response.output_item.done","item":{"type":"x_call","id":7}}`,
			`{"type":"response.output_item.done","item":{"type":"message","content":"hello","status":1}}`,
			`{"type":"response.output_item.done","item":{"type":"reasoning","id":"rs_2","summary":"short","encrypted_content":"E2"}}`, spoken, completed},
			kept2 + "text a\n" + told + "stop end\n", ""},
		{"two messages", []string{spoken, message, strings.Replace(spoken, "1", "2", 1), strings.Replace(message, "1", "2", 1), completed},
			"text a\ntext \n\na\n" + told + "stop end\n", ""},
		{"two messages without deltas", []string{message, strings.Replace(message, "1", "2", 1), completed}, "text a\ntext \n\na\n" + told + "stop end\n", ""},
		{"unknown things", []string{`{"type":"response.novelty"}`, `{"type":"response.output_item.done","item":{"type":"web_search_call"}}`, spoken, completed}, "text a\n" + told + "stop end\n", ""},
	}
	for _, tt := range tests {
		s, _ := respond(t, "http://127.0.0.1:1/v1/", named(tt.lines...))
		got, err := modeltest.Read(t, t.Context(), s, modeltest.Ask("q"))
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got != tt.want || text != tt.err {
			t.Errorf("%s: parts = %s, error %q, want %s, %q", tt.name, got, text, tt.want, tt.err)
		}
	}
}

// TestCommentary: what a model says beside an answer that must match a schema is no part of it.
func TestCommentary(t *testing.T) {
	const begins = `{"type":"response.output_item.added","output_index":0,"item":{"type":"message","phase":"commentary"}}`
	const aside = `{"type":"response.output_text.delta","output_index":0,"delta":"I look"}`
	const whole = `{"type":"response.output_item.done","output_index":0,"item":{"type":"message","phase":"commentary","content":[{"type":"output_text","text":"I look"}]}}`
	const end = `{"type":"response.completed","response":{}}`
	for _, tt := range []struct {
		name, schema string
		lines        []string
		want         string
	}{
		{"in pieces", "{}", []string{begins, aside, whole, spoken, message, end}, "thinks I look\ntext a\nstop end\n"},
		{"whole", "{}", []string{whole, message, end}, "thinks I look\ntext a\nstop end\n"},
		{"before a call", "{}", []string{begins, aside, whole, call1, end}, "thinks I look\ntext I look\ncall c1 t {\"a\":1}\nstop tool_use\n"},
		{"cut off", "{}", []string{begins, aside, full}, "thinks I look\ntext I look\nstop max_tokens\n"},
		{"no schema", "", []string{begins, aside, whole, spoken, message, end}, "text I look\ntext \n\na\nstop end\n"},
	} {
		r := modeltest.Ask("q")
		r.Schema = json.RawMessage(tt.schema)
		s, _ := respond(t, "http://127.0.0.1:1/v1/", named(tt.lines...))
		if got, err := modeltest.Read(t, t.Context(), s, r); got != tt.want || err != nil {
			t.Errorf("%s: parts = %s, %v, want %s", tt.name, got, err, tt.want)
		}
	}
}

// TestResponsesPhase: the vendor's models that say whether a message is the answer are told so of
// each that they have said, and no other server is.
func TestResponsesPhase(t *testing.T) {
	r := modeltest.Ask("q")
	r.Messages = append(r.Messages,
		model.Message{Role: model.Assistant, Content: []model.Content{{Text: "I look"}, {Call: &model.Call{ID: "c1", Name: "t", Arguments: []byte("{}")}}}},
		model.Message{Role: model.ToolRole, Content: []model.Content{{Result: &model.CallResult{ID: "c1", Name: "t", Text: "r"}}}},
		model.Message{Role: model.Assistant, Content: []model.Content{{Text: "a"}}}, r.Messages[0])
	for _, tt := range []struct{ url, model, want string }{
		{"https://api.openai.com/v1/", "gpt-5.4", "commentary final_answer"},
		{"https://api.openai.com/v1/", "gpt-5.3-codex", "commentary final_answer"},
		{"https://api.openai.com/v1/", "gpt-5.1", ""},
		{"https://api.openai.com/v1/", "o3-pro", ""},
		{"http://127.0.0.1:1/v1/", "gpt-5.4", ""},
	} {
		s, tr := respond(t, tt.url, "")
		r.Model = tt.model
		_, _ = modeltest.Read(t, t.Context(), s, r) // nothing comes back
		var sent struct{ Input []struct{ Phase string } }
		if err := json.Unmarshal(tr.Sent, &sent); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, i := range sent.Input {
			if i.Phase != "" {
				got = append(got, i.Phase)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s at %s: sent %q, want %q", tt.model, tt.url, got, tt.want)
		}
	}
}

// TestResponsesUnended: the last event counts where its connection ended before the blank line
// behind it, if it is whole.
func TestResponsesUnended(t *testing.T) {
	const usage = `usage {"input_tokens":4,"output_tokens":5,"cache_read_tokens":3,"cache_write_tokens":2}` + "\n"
	begun := named(spoken)
	for body, want := range map[string]string{
		strings.TrimSuffix(named(spoken, completed), "\n"):    "text a\n" + usage + "stop end\n",
		strings.TrimSuffix(named(spoken, completed), "\n\n"):  "text a\n" + usage + "stop end\n",
		begun + "data: " + full:                               "text a\nstop max_tokens\n",
		begun + "data: " + strings.TrimSuffix(completed, "}"): "text a\nopenai: stream: the reply broke off",
		strings.TrimSuffix(named(spoken, message), "\n"):      "text a\nopenai: stream: the reply broke off",
		strings.TrimSuffix(named(message), "\n"):              "openai: stream: the reply broke off",
	} {
		s, _ := respond(t, "http://127.0.0.1:1/v1/", body)
		got, err := modeltest.Read(t, t.Context(), s, modeltest.Ask("q"))
		if err != nil {
			got += err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", body, got, want)
		}
	}
}

// TestResponsesMemory: reasoning goes back as it came, before what followed it, to its provider
// only, and not without that.
func TestResponsesMemory(t *testing.T) {
	kept := func(id, provider string) model.Content {
		return model.Content{Reasoning: &model.Reasoning{Text: "hm", Provider: provider,
			Opaque: json.RawMessage(`{"response_item":{"type":"reasoning","id":"` + id + `","summary":[],"encrypted_content":"E"}}`)}}
	}
	call := func(id string) model.Content {
		return model.Content{Call: &model.Call{ID: id, Name: "t", Arguments: []byte("{}")}}
	}
	result := func(id string) model.Content {
		return model.Content{Result: &model.CallResult{ID: id, Name: "t", Text: "r"}}
	}
	r := modeltest.Ask("q")
	r.Messages = append(r.Messages,
		model.Message{Role: model.Assistant, Content: []model.Content{kept("1", "openai"), call("c1"), kept("2", "elsewhere"), kept("3", "openai"), call("c2"), kept("4", "openai")}},
		model.Message{Role: model.ToolRole, Content: []model.Content{result("c1"), result("c2")}},
		model.Message{Role: model.Assistant, Content: []model.Content{kept("5", "openai"), {Text: "a"}}}, r.Messages[0])
	s, tr := respond(t, "http://127.0.0.1:1/v1/", "")
	_, _ = modeltest.Read(t, t.Context(), s, r) // nothing comes back
	var sent struct{ Input []json.RawMessage }
	if err := json.Unmarshal(tr.Sent, &sent); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range sent.Input {
		var item struct {
			Type, ID string
			Call     string `json:"call_id"`
		}
		if err := json.Unmarshal(i, &item); err != nil {
			t.Fatal(err)
		}
		got = append(got, item.Type+item.ID+item.Call)
	}
	want := []string{"message", "reasoning1", "function_callc1", "reasoning3", "function_callc2", "function_call_outputc1", "function_call_outputc2", "reasoning5", "message", "message"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("input = %q, want %q", got, want)
	}
}

// TestResponsesReasoningOnly: what claims to be reasoning is sent as nothing else. A file or an
// image behind an address costs far more than the bytes of the address.
func TestResponsesReasoningOnly(t *testing.T) {
	const file = `{"type":"message","role":"user","content":[{"type":"input_file","file_url":"https://example.com/long.pdf"}]}`
	const dressed = `{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"E","content":[{"type":"reasoning_text","text":"t","file_url":"https://example.com/long.pdf"}],"role":"user"}`
	thinks := func(item string) model.Content {
		return model.Content{Reasoning: &model.Reasoning{Provider: "openai", Opaque: json.RawMessage(`{"response_item":` + item + `}`)}}
	}
	r := modeltest.Ask("q")
	r.Messages = append(r.Messages,
		model.Message{Role: model.Assistant, Content: []model.Content{thinks(file), thinks(`{"type":"item_reference","id":"x"}`), thinks(`"rs"`), thinks(dressed), {Text: "a"}}},
		model.Message{Role: model.User, Content: []model.Content{{Text: "q"}}})
	s, tr := respond(t, "http://127.0.0.1:1/v1/", named(completed))
	_, _ = modeltest.Read(t, t.Context(), s, r)
	var sent struct{ Input []json.RawMessage }
	if err := json.Unmarshal(tr.Sent, &sent); err != nil {
		t.Fatal(err)
	}
	const want = `{"type":"reasoning","id":"rs","summary":[],"content":[{"type":"reasoning_text","text":"t"}],"encrypted_content":"E"}`
	if len(sent.Input) != 4 || string(sent.Input[1]) != want {
		t.Errorf("sent %s, want beside the messages only %s", sent.Input, want)
	}
}

func TestResponsesParams(t *testing.T) {
	const vendor, other = "https://api.openai.com/v1/", "http://127.0.0.1:1/v1/"
	const always = `"model":"x","stream":true,"store":false,"include":["reasoning.encrypted_content"],"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"q"}]}]`
	tools := []model.Tool{{Name: "t", Description: "d", Schema: json.RawMessage(`{"type":"object"}`)}}
	const toolsJSON = `"tools":[{"type":"function","name":"t","description":"d","strict":false,"parameters":{"type":"object"}}]`
	tests := []struct {
		name, url string
		r         model.Request
		want      string
	}{
		{"nothing asked for", other, model.Request{}, `{` + always + `}`},
		{"profile", vendor, model.Request{Profile: "agent/a"}, `{"prompt_cache_key":"jp-98bbb11d26d2d767df7a4142","service_tier":"default","stream_options":{"include_obfuscation":false},` + always + `}`},
		{"vendor", vendor, model.Request{MaxTokens: 9000}, `{"max_output_tokens":5000,"service_tier":"default","stream_options":{"include_obfuscation":false},` + always + `}`},
		{"reasoning beside tools", other, model.Request{Reasoning: "high", Tools: tools}, `{"reasoning":{"effort":"high","summary":"auto"},` + toolsJSON + `,` + always + `}`},
		{"no reasoning, no calls", other, model.Request{Reasoning: "none", Tools: tools, ToolChoice: "none"}, `{"reasoning":{"effort":"none"},"tool_choice":"none",` + toolsJSON + `,` + always + `}`},
		{"system and schema", other, model.Request{System: []model.Section{{Text: "s"}, {Text: " "}, {Text: "u"}}, Schema: json.RawMessage(`{"type":"object"}`)},
			`{"instructions":"s\n\nu","text":{"format":{"type":"json_schema","name":"answer","strict":false,"schema":{"type":"object"}}},` + always + `}`},
	}
	for _, tt := range tests {
		s, tr := respond(t, tt.url, "")
		tt.r.Model, tt.r.Messages = "x", modeltest.Ask("q").Messages
		_, _ = modeltest.Read(t, t.Context(), s, tt.r) // nothing comes back
		var got, want map[string]any
		if err := json.Unmarshal(tr.Sent, &got); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: sent %s, want %s", tt.name, tr.Sent, tt.want)
		}
	}
}

// TestResponsesBrief: a level that nobody asked for brings no summary along.
func TestResponsesBrief(t *testing.T) {
	for asked, want := range map[string]string{"": `"reasoning":{"effort":"low"}`, "high": `"reasoning":{"effort":"low","summary":"auto"}`} {
		s, tr := respond(t, "https://api.openai.com/v1/", "")
		_, _ = modeltest.Read(t, t.Context(), s, model.Request{Model: "gpt-5", Brief: true, Reasoning: asked, Messages: modeltest.Ask("q").Messages}) // nothing comes back
		if !strings.Contains(string(tr.Sent), want) {
			t.Errorf("%q: sent %s", asked, tr.Sent)
		}
	}
}

// TestResponsesEncrypted: reasoning is not asked for of a model that the vendor knows to have none.
func TestResponsesEncrypted(t *testing.T) {
	for name, want := range map[string]bool{"gpt-4.1": false, "gpt-5.4-chat-latest": false, "gpt-5-mini": true, "o3": true, "x": true} {
		s, tr := respond(t, "https://api.openai.com/v1/", "")
		_, _ = modeltest.Read(t, t.Context(), s, model.Request{Model: name, Messages: modeltest.Ask("q").Messages}) // nothing comes back
		if got := strings.Contains(string(tr.Sent), `"include"`); got != want {
			t.Errorf("%s: sent %s", name, tr.Sent)
		}
	}
}

// TestMutatedResponses: an event with any value replaced or missing is read or refused, and the
// reply is parts and one end.
func TestMutatedResponses(t *testing.T) {
	lines := []string{thought1, spoken, message, call1, completed}
	n, failed := 0, 0
	for i, line := range lines {
		for mutant := range modeltest.Mutations(line) {
			mutated := append([]string{}, lines...)
			mutated[i] = mutant
			s, _ := respond(t, "http://127.0.0.1:1/v1/", named(mutated...))
			n++
			if _, err := modeltest.Read(t, t.Context(), s, modeltest.Ask("q")); err != nil {
				failed++
			}
		}
	}
	if n < 100 || failed == 0 || failed == n {
		t.Errorf("%d of %d mutants failed", failed, n)
	}
}

// TestResponsesCancelled: a reply whose last events came is complete, and what it cost is told,
// also where the run ended while they were read.
func TestResponsesCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, _ := respond(t, "http://127.0.0.1:1/v1/", named(spoken, message, completed))
	var usage *convstore.Usage
	var err error
	for p, e := range s(ctx, modeltest.Ask("q")) {
		if p.Text != "" {
			cancel()
		}
		if p.Usage != nil {
			usage = p.Usage
		}
		err = e
	}
	if want := (convstore.Usage{Input: 4, Output: 5, CacheRead: 3, CacheWrite: 2}); err != nil || usage == nil || *usage != want {
		t.Errorf("usage %v, %v; want %v", usage, err, want)
	}
}

// FuzzResponses: whatever a server sends, a reply is parts and one end.
func FuzzResponses(f *testing.F) {
	f.Add(named(thought1, spoken, message, thought2, call2, completed))
	f.Add(named(call1, thought2, cut, full))
	f.Add(named(`{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{"}`, call1, `{"type":"error","message":"x"}`))
	f.Add(`{"output":[],"error":null,"usage":{"input_tokens":5,"output_tokens":-1e99}}`)
	f.Fuzz(func(t *testing.T, body string) {
		s, _ := respond(t, "http://127.0.0.1:1/v1/", body)
		_, _ = modeltest.Read(t, t.Context(), s, modeltest.Ask("q")) // it checks the reply
	})
}
