package anthropic

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"jp/cmd/jp/internal/model"
	modeltest "jp/cmd/jp/internal/test/model"
)

// stream returns a provider whose server answers with body.
func stream(t testing.TB, body string) (model.Stream, *modeltest.Replay) {
	t.Helper()
	tr := &modeltest.Replay{Body: body}
	s, err := New(model.Config{Name: "anthropic", BaseURL: "https://api.anthropic.com/", Key: "k",
		Client: &http.Client{Transport: tr}, MaxBytes: 1 << 20, Model: model.Info{ID: "anthropic/x", Name: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	return s, tr
}

// events writes server-sent events, one per line of data.
func events(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		var e struct{ Type string }
		_ = json.Unmarshal([]byte(l), &e) // some lines are broken on purpose
		b.WriteString("event: " + e.Type + "\ndata: " + l + "\n\n")
	}
	return b.String()
}

const (
	begin  = `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"model":"x","usage":{"input_tokens":7,"cache_read_input_tokens":2,"cache_creation_input_tokens":3,"output_tokens":1}}}`
	finish = `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}`
	stop   = `{"type":"message_stop"}`
)

func TestEvents(t *testing.T) {
	const counted = `usage {"input_tokens":7,"output_tokens":9,"cache_read_tokens":2,"cache_write_tokens":3}` + "\n"
	const told = `usage {"input_tokens":7,"output_tokens":1,"cache_read_tokens":2,"cache_write_tokens":3}` + "\n"
	tests := []struct {
		name  string
		lines []string
		want  string
		err   string
	}{
		{"usage is replaced where it is told again", []string{begin, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"b"}}`, `{"type":"content_block_stop","index":0}`, finish, stop},
			"text a\ntext b\n" + counted + "stop end\n", ""},
		{"zeros do not replace what was told", []string{begin, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":9}}`, stop},
			counted + "stop end\n", ""},
		{"a smaller usage later", []string{begin, `{"type":"message_delta","delta":{},"usage":{"input_tokens":1,"cache_read_input_tokens":1,"output_tokens":9}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"cache_creation_input_tokens":1,"output_tokens":2}}`, stop},
			counted + "stop end\n", ""},
		{"cache writes by their time to live", []string{begin, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9,"cache_creation":{"ephemeral_5m_input_tokens":4,"ephemeral_1h_input_tokens":5}}}`, stop},
			`usage {"input_tokens":7,"output_tokens":9,"cache_read_tokens":2,"cache_write_tokens":9}` + "\nstop end\n", ""},
		{"a cost that is told", []string{begin, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9,"cost":0.00015}}`, stop},
			strings.TrimSuffix(counted, "\n") + " cost 150000\nstop end\n", ""},
		{"a fee beside what the user's own key pays", []string{begin, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9,"cost":0,"is_byok":true,"cost_details":{"upstream_inference_cost":0.00015}}}`, stop},
			strings.TrimSuffix(counted, "\n") + " cost 150000\nstop end\n", ""},
		{"a cost and no count", []string{`{"type":"message_start","message":{}}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"cost":0.00015}}`, stop},
			`usage {"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0} cost 150000` + "\nstop end\n", ""},
		{"a cost of what broke off", []string{begin, `{"type":"message_delta","delta":{},"usage":{"cost":0.00015}}`},
			strings.TrimSuffix(told, "\n") + " cost 150000\n", "anthropic: stream: the reply broke off"},
		{"only the beginning told", []string{begin, `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, stop}, told + "stop end\n", ""},
		{"unknown events and deltas", []string{begin, `{"type":"surprise","x":1}`, `{"type":"content_block_start","index":0,"content_block":{"type":"new_block"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"new_delta"}}`, `{"type":"content_block_stop","index":0}`, finish, stop},
			counted + "stop end\n", ""},
		{"thinking, hidden thinking", []string{begin, `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"si"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"gn"}}`, `{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"enc"}}`, `{"type":"content_block_stop","index":1}`, finish, stop},
			"thinks hm\nthought hm|sign|\nthought ||{\"type\":\"redacted_thinking\",\"data\":\"enc\"}\n" + counted + "stop end\n", ""},
		{"input given whole", []string{begin, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"1","name":"t","input":{"a":1}}}`,
			`{"type":"content_block_stop","index":0}`, finish, stop}, "call 1 t {\"a\":1}\n" + counted + "stop tool_use\n", ""},
		{"a call that is said twice", []string{begin, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"1","name":"t","input":{"a":1}}}`, `{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"1","name":"t","input":{"a":1}}}`, `{"type":"content_block_stop","index":1}`, finish, stop},
			"call 1 t {\"a\":1}\n" + counted + "stop tool_use\n", ""},
		{"blocks side by side", []string{begin, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"1","name":"t","input":{}}}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"2","name":"u","input":{}}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"[1"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}`,
			`{"type":"content_block_stop","index":0}`, `{"type":"content_block_stop","index":1}`, finish, stop},
			"call 1 t {}\ncall 2 u [1\n" + counted + "stop tool_use\n", ""},
		{"cut off inside a call", []string{begin, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"1","name":"t","input":{}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":9}}`, stop}, counted + "stop max_tokens\n", ""},
		{"cut off, the call closed", []string{begin, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"1","name":"t","input":{}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a"}}`, `{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":9}}`, stop}, counted + "stop max_tokens\n", ""},
		{"cut off before the input of a call, the call closed", []string{begin, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"1","name":"t","input":{}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":""}}`, `{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":9}}`, stop}, counted + "stop max_tokens\n", ""},
		{"cut off behind a call without input", []string{begin, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"1","name":"t","input":{}}}`, `{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"2","name":"u","input":{}}}`,
			`{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":9}}`, stop}, "call 1 t {}\n" + counted + "stop max_tokens\n", ""},
		{"cut off in a text behind a call without input", []string{begin, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"1","name":"t","input":{}}}`, `{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"a"}}`, `{"type":"content_block_stop","index":1}`,
			`{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":9}}`, stop}, "text a\ncall 1 t {}\n" + counted + "stop max_tokens\n", ""},
		{"other stops", []string{begin, `{"type":"message_delta","delta":{"stop_reason":"model_context_window_exceeded"},"usage":{"output_tokens":9}}`, stop}, counted + "stop max_tokens\n", ""},
		{"no message_stop", []string{begin, finish}, counted + "stop end\n", ""},

		{"nothing", nil, "", "anthropic: stream: the reply broke off"},
		{"no stop reason", []string{begin, stop}, told, "anthropic: stream: the reply broke off"},
		{"only a start", []string{begin}, told, "anthropic: stream: the reply broke off"},
		{"unknown stop", []string{begin, `{"type":"message_delta","delta":{"stop_reason":"whim"},"usage":{"output_tokens":9}}`, stop}, counted, `anthropic: stream: the reply says nothing and stopped for an unknown reason "whim"`},
		{"unknown stop after words", []string{begin, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}`, `{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"whim"},"usage":{"output_tokens":9}}`, stop}, "text a\n" + counted + "stop max_tokens\n", ""},
		{"ends inside a block", []string{begin, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}`, finish, stop}, "text a\n" + counted, "anthropic: stream: the reply ended inside a block of type text"},
		{"delta without a block", []string{begin, `{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"b"}}`}, told, "anthropic: stream: a text_delta for content block 3, which is not open"},
		{"end without a block", []string{begin, `{"type":"content_block_stop","index":3}`}, told, "anthropic: stream: the end of content block 3, which is not open"},
		{"two starts", []string{begin, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`}, told, "anthropic: stream: content block 0 starts twice"},
		{"text that is none", []string{begin, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":null}}`}, told, "anthropic: stream: a text delta without text, or in a block of type text"},
		{"arguments that are none", []string{begin, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"1","name":"t"}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta"}}`}, told, "anthropic: stream: a delta of a tool call without JSON text"},
		{"call without a name", []string{begin, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"1"}}`}, told, "anthropic: stream: content block 0: a tool call without a name"},
		{"error", []string{begin, `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`}, told, "anthropic: rate_limit: slow down"},
		{"error that is no JSON", []string{begin, `{"type":"error"`}, told, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := stream(t, events(tt.lines...))
			got, err := modeltest.Read(t, t.Context(), s, modeltest.Ask("q"))
			if got != tt.want && tt.err != "" || tt.err == "" && err == nil && got != tt.want {
				t.Errorf("parts:\n%swant:\n%s", got, tt.want)
			}
			var e *model.Error
			if tt.err != "" && (!errors.As(err, &e) || e.Error() != tt.err) {
				t.Errorf("error = %v, want %s", err, tt.err)
			}
		})
	}
}

// TestNameless: a reply with a call that has no name is not asked for again.
func TestNameless(t *testing.T) {
	s, _ := stream(t, events(begin, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"1"}}`))
	_, err := modeltest.Read(t, t.Context(), s, modeltest.Ask("q"))
	if e, ok := errors.AsType[*model.Error](err); !ok || e.Temporary() {
		t.Errorf("error = %v, which is temporary", err)
	}
}

// TestUnreadable: lines that are no events.
func TestUnreadable(t *testing.T) {
	for _, body := range []string{
		"event: message_start\ndata: {\"type\"\n\n",
		"event: message_start\ndata: [1]\n\n",
		"data: {}\n\n", "event: x\n\n", ":\n\n", "\n\n\n", "\x00", strings.Repeat("x", 2<<20),
		"event: error\ndata: nonsense\n\n",
		"event: error\ndata: \n\n",
		events(begin) + "event: message_delta\ndata: " + finish, // no blank line at the end
	} {
		s, _ := stream(t, body)
		_, err := modeltest.Read(t, t.Context(), s, modeltest.Ask("q"))
		if _, ok := errors.AsType[*model.Error](err); !ok {
			t.Errorf("%.80q: error = %v, want an *Error", body, err)
		}
	}
}

const closed = `{"type":"object","additionalProperties":false}`

// TestNative: what the vendor's API would refuse is not sent to it.
func TestNative(t *testing.T) {
	for _, tt := range []struct {
		schema string
		want   bool
	}{
		{closed, true},
		{`{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":{"type":"array","minItems":1,"items":{"$ref":"#/$defs/d"}},
			"b":{"anyOf":[{"type":"null"},{"enum":[1,"x"]}]},"c":{"const":true,"description":"d"}},"$defs":{"d":{"type":"string"}}}`, true},
		{`{}`, false},
		{`{"type":"array","items":{"type":"string"}}`, false},
		{`{"type":"object","additionalProperties":true}`, false},
		{`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"object"}}}`, false},
		{`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string","minLength":1}}}`, false},
		{`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string","pattern":"^a"}}}`, false},
		{`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"integer","minimum":1}}}`, false},
		{`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"array","minItems":2}}}`, false},
		{`{"type":"object","additionalProperties":false,"properties":{"a":{"enum":[[1]]}}}`, false},
		{`{"type":"object","additionalProperties":false,"properties":{"a":{"const":{}}}}`, false},
		{`{"type":"object","additionalProperties":false,"properties":{"a":true}}`, false},
		{`{"type":"object","additionalProperties":false,"properties":{"a":{"$ref":"#"}}}`, false},
		{`{"type":"object","additionalProperties":false,"$defs":{"a":{"type":"array","items":{"$ref":"#/$defs/a"}}}}`, false},
		{`{"type":"object","additionalProperties":false,"oneOf":[{}]}`, false},
	} {
		s, tr := stream(t, "")
		r := modeltest.Ask("q")
		r.Model, r.Schema = "x", json.RawMessage(tt.schema)
		_, _ = modeltest.Read(t, t.Context(), s, r) // nothing comes back
		if got := strings.Contains(string(tr.Sent), `"output_config"`); got != tt.want {
			t.Errorf("%s: sent = %v, want %v", tt.schema, got, tt.want)
		}
	}
}

func TestParams(t *testing.T) {
	temperature := 0.5
	tests := []struct {
		name  string
		info  model.Info
		model string
		r     model.Request
		want  string // of the body, without messages, model and stream
	}{
		{"least", model.Info{}, "x", model.Request{}, `{"max_tokens":32000}`},
		{"limits", model.Info{MaxOutput: 1000}, "x", model.Request{MaxTokens: 2000, Temperature: &temperature}, `{"max_tokens":1000,"temperature":0.5}`},
		{"schema", model.Info{}, "x", model.Request{Schema: json.RawMessage(closed)},
			`{"max_tokens":32000,"output_config":{"format":{"type":"json_schema","schema":` + closed + `}}}`},
		{"schema, 4.5", model.Info{}, "claude-haiku-4-5", model.Request{Schema: json.RawMessage(closed)},
			`{"max_tokens":32000,"output_config":{"format":{"type":"json_schema","schema":` + closed + `}}}`},
		{"schema, before 4.5", model.Info{}, "claude-opus-4-1", model.Request{Schema: json.RawMessage(closed)}, `{"max_tokens":32000}`},
		{"schema, open", model.Info{}, "x", model.Request{Schema: json.RawMessage(`{"type":"object"}`)}, `{"max_tokens":32000}`},
		{"no calls", model.Info{}, "x", model.Request{ToolChoice: "none", Tools: []model.Tool{{Name: "t", Schema: json.RawMessage(`{"type":"object"}`)}}},
			`{"max_tokens":32000,"tool_choice":{"type":"none"},"tools":[{"name":"t","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}]}`},
		{"no calls of nothing", model.Info{}, "x", model.Request{ToolChoice: "none"}, `{"max_tokens":32000}`},

		{"adaptive", model.Info{}, "claude-sonnet-5-5", model.Request{Reasoning: "high"},
			`{"max_tokens":32000,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"high"}}`},
		{"adaptive from 4.6", model.Info{}, "claude-opus-4-6", model.Request{Reasoning: "low"},
			`{"max_tokens":32000,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"low"}}`},
		{"adaptive for the unknown", model.Info{}, "x", model.Request{Reasoning: "low"},
			`{"max_tokens":32000,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"low"}}`},
		{"budget", model.Info{}, "claude-haiku-4-5-20251001", model.Request{Reasoning: "medium"},
			`{"max_tokens":32000,"thinking":{"type":"enabled","budget_tokens":10240}}`},
		{"budget, old name", model.Info{}, "claude-3-7-sonnet-20250219", model.Request{Reasoning: "high"},
			`{"max_tokens":32000,"thinking":{"type":"enabled","budget_tokens":16000}}`},
		{"budget, no minor version", model.Info{}, "claude-sonnet-4-20250514", model.Request{Reasoning: "low"},
			`{"max_tokens":32000,"thinking":{"type":"enabled","budget_tokens":4096}}`},
		{"no room for a budget", model.Info{}, "claude-haiku-4-5", model.Request{Reasoning: "high", MaxTokens: 1024}, `{"max_tokens":1024}`},
		{"none, off anyway", model.Info{}, "claude-opus-4-8", model.Request{Reasoning: "none"}, `{"max_tokens":32000}`},
		{"none", model.Info{}, "claude-opus-5", model.Request{Reasoning: "none"}, `{"max_tokens":32000,"thinking":{"type":"disabled"}}`},
		{"none, Haiku", model.Info{}, "claude-haiku-5-5", model.Request{Reasoning: "none"}, `{"max_tokens":32000,"thinking":{"type":"disabled"}}`},
		{"none, always on", model.Info{}, "claude-opus-5-5", model.Request{Reasoning: "none"}, `{"max_tokens":32000,"output_config":{"effort":"low"}}`},
		{"none, always on", model.Info{}, "claude-fable-5", model.Request{Reasoning: "none"}, `{"max_tokens":32000,"output_config":{"effort":"low"}}`},
		{"brief", model.Info{}, "claude-sonnet-5-5", model.Request{Brief: true}, `{"max_tokens":32000,"thinking":{"type":"between_tools"}}`},
		{"brief, always on", model.Info{}, "claude-opus-5-5", model.Request{Brief: true, Reasoning: "high"}, `{"max_tokens":32000,"output_config":{"effort":"low"}}`},
		{"none, between tools", model.Info{}, "claude-sonnet-5-5", model.Request{Reasoning: "none"}, `{"max_tokens":32000,"thinking":{"type":"between_tools"}}`},
	}
	for _, tt := range tests {
		tr := &modeltest.Replay{}
		tt.info.Format, tt.info.Endpoint = "anthropic", "https://api.anthropic.com/"
		s, err := New(model.Config{Name: "anthropic", BaseURL: "https://api.anthropic.com/", Client: &http.Client{Transport: tr}, MaxBytes: 1, Model: tt.info})
		if err != nil {
			t.Fatal(err)
		}
		tt.r.Model, tt.r.Messages = tt.model, modeltest.Ask("q").Messages
		_, _ = modeltest.Read(t, t.Context(), s, tt.r) // nothing comes back
		var got, want map[string]any
		if err := json.Unmarshal(tr.Sent, &got); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		for _, key := range []string{"messages", "model", "stream"} {
			delete(got, key)
		}
		if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			text, _ := json.Marshal(got)
			t.Errorf("%s: sent %s, want %s", tt.name, text, tt.want)
		}
	}
}

// TestThinkingGoesBack: blocks go back to the provider that made them and to no other.
func TestThinkingGoesBack(t *testing.T) {
	s, tr := stream(t, "")
	r := modeltest.Ask("q")
	r.Messages = append(r.Messages, model.Message{Role: model.Assistant, Content: []model.Content{
		{Reasoning: &model.Reasoning{Text: "a", Signature: "s", Provider: "anthropic"}},
		{Reasoning: &model.Reasoning{Opaque: json.RawMessage(`{"type":"redacted_thinking","data":"enc"}`), Provider: "anthropic"}},
		{Reasoning: &model.Reasoning{Text: "unsigned", Provider: "anthropic"}},
		{Reasoning: &model.Reasoning{Text: "b", Signature: "s", Provider: "other"}},
		{Text: "hi"},
	}}, r.Messages[0])
	_, _ = modeltest.Read(t, t.Context(), s, r) // nothing comes back
	var sent struct {
		Messages []struct{ Content json.RawMessage }
	}
	if err := json.Unmarshal(tr.Sent, &sent); err != nil {
		t.Fatal(err)
	}
	want := `[{"signature":"s","thinking":"a","type":"thinking"},{"data":"enc","type":"redacted_thinking"},{"text":"hi","type":"text"}]`
	if got := string(sent.Messages[1].Content); got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
}

// TestMutatedEvents: an event with any value replaced or missing is read or refused, and the reply
// is parts and one end.
func TestMutatedEvents(t *testing.T) {
	lines := []string{begin,
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"h","signature":"s"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"m"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"d"}}`,
		`{"type":"content_block_stop","index":1}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"a","citations":[{"type":"char_location","cited_text":"x"}]}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"b"}}`,
		`{"type":"content_block_stop","index":2}`,
		`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"1","name":"t","input":{"a":[1]}}}`,
		`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{}"}}`,
		`{"type":"content_block_stop","index":3}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_details":{"type":"refusal","explanation":"x"}},"usage":{"output_tokens":9,"input_tokens":1}}`,
		stop,
		`{"type":"error","error":{"type":"api_error","message":"x"}}`,
	}
	n, failed := 0, 0
	for i, line := range lines {
		for mutant := range modeltest.Mutations(line) {
			mutated := slices.Clone(lines)
			mutated[i] = mutant
			s, _ := stream(t, events(mutated...))
			n++
			if _, err := modeltest.Read(t, t.Context(), s, modeltest.Ask("q")); err != nil {
				failed++
			}
		}
	}
	if n < 500 || failed == 0 || failed == n {
		t.Errorf("%d of %d mutants failed", failed, n)
	}
}

// FuzzStream: whatever a server sends, a reply is parts and one end.
func FuzzStream(f *testing.F) {
	f.Add(events(begin, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"b"}}`, `{"type":"content_block_stop","index":0}`, finish, stop))
	f.Add(events(begin, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"1","name":"t","input":{"a":[1]}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}`, `{"type":"content_block_stop","index":0}`, finish))
	f.Add(events(begin, `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"x"}}`, `{"type":"error","error":{"message":"x"}}`))
	f.Add("event: ping\ndata: {}\n\n: comment\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":-1e99},\"delta\":{\"stop_reason\":\"tool_use\"}}\n\n")
	f.Fuzz(func(t *testing.T, body string) {
		s, _ := stream(t, body)
		_, _ = modeltest.Read(t, t.Context(), s, modeltest.Ask("q")) // it checks the reply
	})
}

// TestThinkingBegins: the API refuses thinking in a turn whose first reply has none.
func TestThinkingBegins(t *testing.T) {
	tr := &modeltest.Replay{}
	s, err := New(model.Config{Name: "anthropic", BaseURL: "https://api.anthropic.com/", Client: &http.Client{Transport: tr}, MaxBytes: 1,
		Model: model.Info{Format: "anthropic", Endpoint: "https://api.anthropic.com/"}})
	if err != nil {
		t.Fatal(err)
	}
	user := model.Message{Role: model.User, Content: []model.Content{{Text: "q"}}}
	thought := model.Content{Reasoning: &model.Reasoning{Text: "h", Signature: "s", Provider: "anthropic"}}
	foreign := model.Content{Reasoning: &model.Reasoning{Text: "h", Provider: "openai"}}
	call := model.Content{Call: &model.Call{ID: "1", Name: "t", Arguments: []byte("{}")}}
	calls := func(first ...model.Content) []model.Message {
		return []model.Message{user, {Role: model.Assistant, Content: append(first, call)},
			{Role: model.ToolRole, Content: []model.Content{{Result: &model.CallResult{ID: "1", Text: "r"}}}}}
	}
	for name, tt := range map[string]struct {
		messages []model.Message
		want     bool
	}{
		"a new turn":                      {[]model.Message{user}, true},
		"a new turn after one without":    {append(calls(), model.Message{Role: model.Assistant, Content: []model.Content{{Text: "a"}}}, user), true},
		"a turn that began with thinking": {calls(thought), true},
		"one that began without":          {calls(), false},
		"one that began elsewhere":        {calls(foreign), false},
	} {
		_, _ = modeltest.Read(t, t.Context(), s, model.Request{Model: "claude-haiku-4-5", Reasoning: "high", Messages: tt.messages})
		if got := strings.Contains(string(tr.Sent), `"thinking":{"budget`); got != tt.want {
			t.Errorf("%s: thinking is asked for: %v, want %v: %s", name, got, tt.want, tr.Sent)
		}
	}
}
