package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"jp/cmd/jp/internal/model"
	modeltest "jp/cmd/jp/internal/test/model"
	"jp/convstore"
)

func parse(t testing.TB, text string) *Script {
	t.Helper()
	s, err := Parse("s.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The page for people has all keys of a rule, and no others.
func TestDocumentedKeys(t *testing.T) {
	page, err := os.ReadFile("../../../../../docs/models.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "\n[[rule]]\nname = ")
	block, _, ok := strings.Cut("name = "+block, "\n```")
	if !ok {
		t.Fatal("docs/models.md has no block that begins with a rule's name")
	}
	documented := map[string]bool{"captures": strings.Contains(block, "[rule.captures]")}
	for line := range strings.Lines(block) {
		if key, _, ok := strings.Cut(line, " = "); ok && !strings.HasPrefix(line, "#") {
			documented[key] = true
		}
	}
	rule := reflect.TypeFor[ruleTOML]()
	for i := range rule.NumField() {
		key := rule.Field(i).Tag.Get("toml")
		if !documented[key] {
			t.Errorf("docs/models.md does not have %s", key)
		}
		delete(documented, key)
	}
	for key := range documented {
		t.Errorf("docs/models.md has %s, which no rule has", key)
	}
}

func user(text string) model.Message {
	return model.Message{Role: model.User, Content: []model.Content{{Text: text}}}
}

func call(id, name string) model.Message {
	return model.Message{Role: model.Assistant, Content: []model.Content{{Call: &model.Call{ID: id, Name: name, Arguments: []byte("{}")}}}}
}

func result(id, name, text string, failed bool) model.Message {
	return model.Message{Role: model.ToolRole, Content: []model.Content{{Result: &model.CallResult{ID: id, Name: name, Text: text, IsError: failed}}}}
}

func tool(name string) model.Tool { return model.Tool{Name: name, Schema: json.RawMessage("{}")} }

// TestConditions: a rule with one condition, and a request for which it holds and one for which
// not.
func TestConditions(t *testing.T) {
	q := []model.Message{user("count the lines")}
	answered := []model.Message{user("count the lines"), call("1", "wc"), result("1", "wc", "42 lines", false)}
	failed := []model.Message{user("count the lines"), call("1", "wc"), result("1", "wc", "no file", true)}
	two := []model.Message{user("q"), {Role: model.Assistant, Content: []model.Content{
		{Call: &model.Call{ID: "1", Name: "a", Arguments: []byte("{}")}}, {Call: &model.Call{ID: "2", Name: "b", Arguments: []byte("{}")}}}},
		{Role: model.ToolRole, Content: []model.Content{{Result: &model.CallResult{ID: "1", Name: "a", Text: "first"}}, {Result: &model.CallResult{ID: "2", Name: "b", Text: "second"}}}}}
	tests := []struct {
		condition string
		yes, no   model.Request
	}{
		{`profile = "agent/researcher"`, model.Request{Profile: "agent/researcher"}, model.Request{Profile: "agent/planner"}},
		{`profile = ["x", "agent/*"]`, model.Request{Profile: "agent/planner"}, model.Request{}},
		{`profile = ""`, model.Request{}, model.Request{Profile: "x"}},
		{`turn = 2`, model.Request{Turn: 2}, model.Request{Turn: 1}},
		{`round = [1, 3]`, model.Request{Round: 3}, model.Request{Round: 2}},
		{`attempt = 1`, model.Request{}, model.Request{Attempt: 2}},
		{`contains = "lines"`, model.Request{Messages: q}, model.Request{Messages: []model.Message{user("count")}}},
		{`contains = "42"`, model.Request{Messages: answered}, model.Request{Messages: q}},
		{`contains = "count"`, model.Request{Messages: q}, model.Request{Messages: answered}},
		{`contains = ["nope", "second"]`, model.Request{Messages: two}, model.Request{Messages: q}},
		{`not_contains = "42"`, model.Request{Messages: q}, model.Request{Messages: answered}},
		{`not_contains = ["nope", "second"]`, model.Request{Messages: q}, model.Request{Messages: two}},
		{`matches = '^\d+ lines$'`, model.Request{Messages: answered}, model.Request{Messages: q}},
		{`query = "count"`, model.Request{Messages: answered}, model.Request{Messages: []model.Message{user("42")}}},
		{`system = "terse"`, model.Request{System: []model.Section{{Text: "x"}, {Text: "be terse"}}}, model.Request{}},
		{`tool = "wc"`, model.Request{Messages: answered}, model.Request{Messages: two}},
		{`tool = ["x", "b"]`, model.Request{Messages: two}, model.Request{Messages: q}},
		{`failed = true`, model.Request{Messages: failed}, model.Request{Messages: answered}},
		{`failed = false`, model.Request{Messages: answered}, model.Request{Messages: failed}},
		{`has_tool = "wc"`, model.Request{Tools: []model.Tool{tool("wc")}}, model.Request{Tools: []model.Tool{tool("x")}}},
		{`missing_tools = ["a", "wc"]`, model.Request{Tools: []model.Tool{tool("x")}}, model.Request{Tools: []model.Tool{tool("wc")}}},
		{`no_calls = true`, model.Request{ToolChoice: "none"}, model.Request{}},
		{`no_calls = false`, model.Request{}, model.Request{ToolChoice: "none"}},
	}
	for _, tt := range tests {
		s := parse(t, "[[rule]]\n"+tt.condition+"\ntext = 'yes'\n[[rule]]\ntext = 'no'").Stream("script", "")
		for want, r := range map[string]model.Request{"text yes\n": tt.yes, "text no\n": tt.no} {
			if r.Messages == nil {
				r.Messages = q
			}
			got, err := modeltest.Read(t, t.Context(), s, r)
			if first, _, _ := strings.Cut(got, "usage"); first != want || err != nil {
				t.Errorf("%s: reply = %q, %v, want %q", tt.condition, got, err, want)
			}
		}
	}
	s := parse(t, "[[rule]]\nvariant = 'slow'\ntext = 'yes'\n[[rule]]\ntext = 'no'")
	for variant, want := range map[string]string{"slow": "text yes\n", "": "text no\n"} {
		if got, _ := modeltest.Read(t, t.Context(), s.Stream("script", variant), model.Request{Messages: q}); !strings.HasPrefix(got, want) {
			t.Errorf("variant %q: reply = %q, want %q", variant, got, want)
		}
	}
}

func TestReply(t *testing.T) {
	s := parse(t, `
[captures]
id = 'conversation_id="(jp-c[0-9]+)"'
last = { pattern = 'jp-c[0-9]+', match = -1 }
second = { pattern = 'jp-c[0-9]+', match = 2 }
missing = { pattern = 'nothing', default = "none" }
[defaults]
chunk = 4
[[rule]]
reasoning = "Think of {{id}}."
text = "{{ id }}, {{second}}, {{last}}, {{missing}}: {{{id}}} {{Unknown}}"
tool_calls = [
  { name = "t", arguments = { id = "{{id}}", n = 1, f = 1.5, b = true, d = 1979-05-27, l = ["{{last}}", { x = "{{id}}" }], t = [{ y = "<{{id}}>" }] } },
  { name = "u", raw_arguments = '{"id": {{id}}' },
  { name = "v" },
]
usage = { input = 1, output = 2, cache_read = 3, cache_write = 4 }
[rule.captures]
missing = { pattern = 'else', default = "own" }
`).Stream("script", "")
	r := model.Request{
		System: []model.Section{{Text: "you are jp-c1"}},
		Messages: []model.Message{user(`conversation_id="jp-c2"`), call("call_1", "x"),
			result("call_1", "x", "jp-c3 jp-c4", false)},
	}
	got, err := modeltest.Read(t, t.Context(), s, r)
	want := `thinks Thin
thinks k of
thinks  jp-
thinks c2.
thought Think of jp-c2.||
text jp-c
text 2, j
text p-c2
text , jp
text -c4,
text  own
text : {j
text p-c2
text } {{
text Unkn
text own}
text }
call call_2 t {"b":true,"d":"1979-05-27T00:00:00Z","f":1.5,"id":"jp-c2","l":["jp-c4",{"x":"jp-c2"}],"n":1,"t":[{"y":"\u003cjp-c2\u003e"}]}
call call_3 u {"id": jp-c2
call call_4 v {}
usage {"input_tokens":1,"output_tokens":2,"cache_read_tokens":3,"cache_write_tokens":4}
stop tool_use
`
	if err != nil || got != want {
		t.Errorf("reply = %s, %v, want %s", got, err, want)
	}
}

func TestModelErrors(t *testing.T) {
	q := []model.Message{user("hello there")}
	tests := []struct {
		script string
		r      model.Request
		want   string
		kind   model.Kind
	}{
		{"[[rule]]\ncontains = 'x'\ntext = 'y'", model.Request{Profile: "agent/r", Turn: 1, Round: 2, Messages: q},
			`script: bad_request: s.toml: no rule answers profile "agent/r", turn 1, round 2, attempt 1, last message "hello there"`, model.KindBadRequest},
		{"[captures]\na = 'x(y)'\n[[rule]]\nname = 'first'\ntext = '{{a}}'", model.Request{Messages: q},
			`script: bad_request: s.toml: rule 1 (line 3) "first": capture a: "x(y)" has 0 matches in the thread, number 1 was asked for`, model.KindBadRequest},
		{"[[rule]]\ntool_calls = [{name = 't', id = 'call_1'}]", model.Request{Messages: append(append([]model.Message{}, q...), call("call_1", "t"), result("call_1", "t", "", false))},
			`script: bad_request: s.toml: rule 1 (line 1): tool call id "call_1" is not unique in the thread`, model.KindBadRequest},
		{"[[rule]]\ntool_calls = [{name = 't'}]", model.Request{Messages: q, ToolChoice: "none"},
			`script: bad_request: s.toml: rule 1 (line 1): calls tools although calls are ruled out (see no_calls)`, model.KindBadRequest},
		{"[[rule]]\ntext = 'x'", model.Request{},
			`script: bad_request: s.toml: refused, as a real provider would: no messages`, model.KindBadRequest},
		{"[[rule]]\nerror = { kind = 'rate_limit', retry_after = '2s', message = 'slow' }", model.Request{Messages: q}, `script: rate_limit (429): slow`, model.KindRateLimit},
		{"[[rule]]\nerror = { kind = 'server', status = 503 }", model.Request{Messages: q}, `script: server (503): as the script says`, model.KindServer},
		{"[[rule]]\nfault = 'hangup'", model.Request{Messages: q}, `script: stream: the reply broke off`, model.KindStream},
		{"[[rule]]\nfault = 'html'", model.Request{Messages: q}, `script: stream: answered with text/html, not with an event stream`, model.KindStream},
	}
	for _, tt := range tests {
		_, err := modeltest.Read(t, t.Context(), parse(t, tt.script).Stream("script", ""), tt.r)
		var e *model.Error
		if !errors.As(err, &e) || e.Error() != tt.want || e.Kind != tt.kind {
			t.Errorf("%q: error = %v, want %s", tt.script, err, tt.want)
		}
		if e.Kind == model.KindRateLimit && e.RetryAfter != 2*time.Second {
			t.Errorf("retry after = %v", e.RetryAfter)
		}
	}
}

// TestFaultAfterWords: what a rule says comes before its fault.
func TestFaultAfterWords(t *testing.T) {
	for _, end := range []string{"fault = 'hangup'", "error = { kind = 'overloaded' }"} {
		got, err := modeltest.Read(t, t.Context(), parse(t, "[[rule]]\ntext = 'so far'\n"+end).Stream("script", ""), model.Request{Messages: []model.Message{user("q")}})
		if got != "text so far\n" || err == nil {
			t.Errorf("%s: reply = %q, %v", end, got, err)
		}
	}
	if _, err := modeltest.Read(t, t.Context(), parse(t, "[[rule]]\nfault = 'redirect'").Stream("script", ""), model.Request{Messages: []model.Message{user("q")}}); !errors.Is(err, Redirect) {
		t.Errorf("error = %v, want %v in it", err, Redirect)
	}
}

func TestDelays(t *testing.T) {
	s := parse(t, `
[defaults]
delay = "1s"
chunk = 2
chunk_delay = "100ms"
[[rule]]
contains = "own"
text = "abcdef"
delay = "0s"
chunk = 3
[[rule]]
contains = "hang"
text = "ab"
hang = true
[[rule]]
reasoning = "ab"
text = "abcdef"
`).Stream("script", "")
	for question, want := range map[string]time.Duration{"q": 1300 * time.Millisecond, "own": 100 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			if _, err := modeltest.Read(t, t.Context(), s, model.Request{Messages: []model.Message{user(question)}}); err != nil {
				t.Error(err)
			}
			if got := time.Since(start); got != want {
				t.Errorf("%s: took %v, want %v", question, got, want)
			}
		})
	}
	cause := errors.New("enough")
	for _, question := range []string{"q", "hang"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(1100*time.Millisecond, func() { cancel(cause) })
			if got, err := modeltest.Read(t, ctx, s, model.Request{Messages: []model.Message{user(question)}}); err != cause {
				t.Errorf("%s: reply = %q, %v, want the cause", question, got, err)
			}
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := modeltest.Read(t, ctx, s, model.Request{Messages: []model.Message{user("own")}}); err != cause {
		t.Errorf("error = %v, want the cause", err)
	}
}

func TestEstimatedUsage(t *testing.T) {
	var got convstore.Usage
	for p, err := range parse(t, "[[rule]]\ntext = '"+strings.Repeat("x", 300)+"'").Stream("script", "")(t.Context(), model.Request{Messages: []model.Message{user(strings.Repeat("y", 600))}}) {
		if err != nil {
			t.Fatal(err)
		}
		if p.Usage != nil {
			got = *p.Usage
		}
	}
	if want := (convstore.Usage{Input: 206, Output: 101}); got != want {
		t.Errorf("usage = %+v, want %+v", got, want)
	}
}

func TestParseErrors(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", "s.toml: there is no [[rule]]"},
		{"[[rule]]\ncontains = 'x'", "s.toml:1: rule 1: says nothing: text, tool_calls, error, fault, hang or stop is missing"},
		{"[[rule]]\ntext = 'x'\n\n[[rule]]\ncontain = 'x'\ntext = 'y'", "s.toml:5: unknown key rule.contain"},
		{"# c\nrules = 1", "s.toml:2: unknown key rules"},
		{"[default]\nx = 1\n[[rule]]\ntext = ''", "s.toml:1: unknown key default"},
		{"[[rule]]\ntext = 'x'\nusage = { inputs = 1 }", "s.toml:3: unknown key rule.usage.inputs"},
		{"[[rule]]\ntext = '''\n[[rule]]\nbad = 1\n'''\nbad = 1", "s.toml:6: unknown key rule.bad"},
		{"[[rule]\ntext = 1", `s.toml:2: expected end of table array name delimiter ']', but got '\n' instead`},
		{"[[rule]]\ntext = 1", "s.toml:2: rule.text: incompatible types: TOML value has type int64; destination has type string"},
		{"[[rule]]\ntext = 'x'\n[[rule]]\n\ntext = 1\n[[rule]]\ntext = 'y'", "s.toml:5: rule.text: incompatible types: TOML value has type int64; destination has type string"},
		{"[defaults]\nchunk = 'x'\n[[rule]]\ntext = 'y'", "s.toml:2: defaults.chunk: incompatible types: TOML value has type string; destination has type integer"},
		{"[[rule]]\nusage = { input = 'x' }\n[[rule]]\nusage = { input = 1 }", "s.toml:2: rule.usage.input: incompatible types: TOML value has type string; destination has type integer"},
		{"[[rule]]\ntext = 'x'\nturn = 'one'", "s.toml:3: rule.turn: must be an int or an array of them"},
		{"[[rule]]\ntext = 'x'\nprofile = [1]", "s.toml:3: rule.profile: must be a string or an array of them"},
		{"[[rule]]\ntext = 'x'\ndelay = '-1s'", `s.toml:3: rule.delay: "-1s": must be a duration between 0s and 1h`},
		{"[[rule]]\ntext = 'x'\ndelay = '2h'", `s.toml:3: rule.delay: "2h": must be a duration between 0s and 1h`},
		{"[[rule]]\ntext = 'x'\nchunk = 0", "s.toml:1: rule 1: chunk must be positive"},
		{"[defaults]\nchunk = -1\n[[rule]]\ntext = 'x'", "s.toml:1: chunk is negative"},
		{"[[rule]]\ntext = 'x'\nprofile = '['", `s.toml:1: rule 1: profile "[" is not a pattern`},
		{"[[rule]]\ntext = 'x'\nmatches = '('", "s.toml:1: rule 1: matches: error parsing regexp: missing closing ): `(`"},
		{"[[rule]]\ntext = '{{nope}}'", "s.toml:1: rule 1: {{nope}} is not a capture"},
		{"[[rule]]\ntool_calls = [{ name = 't', arguments = { a = ['{{nope}}'] } }]", "s.toml:1: rule 1: {{nope}} is not a capture"},
		{"[[rule]]\ntool_calls = [{ arguments = {} }]", "s.toml:1: rule 1: tool_calls 1: name is missing"},
		{"[[rule]]\ntool_calls = [{ name = 't', arguments = {}, raw_arguments = 'x' }]", "s.toml:1: rule 1: tool_calls 1: arguments and raw_arguments exclude each other"},
		{"[[rule]]\ntool_calls = [{ name = 't', raw_arguments = '' }]", "s.toml:1: rule 1: tool_calls 1: raw_arguments is empty"},
		{"[[rule]]\ntool_calls = [{ name = 't', arguments = { a = [{ b = nan }] } }]", "s.toml:1: rule 1: tool_calls 1: JSON has no nan and no inf"},
		{"[[rule]]\ntool_calls = [{ name = 't', id = 'a' }, { name = 't', id = 'a' }]", `s.toml:1: rule 1: tool_calls 2: id "a" is used twice`},
		{"[[rule]]\ntext = 'x'\nstop = 'now'", `s.toml:1: rule 1: stop "now": must be end, tool_use, max_tokens or refusal`},
		{"[[rule]]\ntext = 'x'\nusage = { input = -1 }", "s.toml:1: rule 1: usage is negative"},
		{"[[rule]]\ntext = 'x'\nusage = { cost_nano = -1 }", "s.toml:1: rule 1: usage is negative"},
		{"[[rule]]\ntext = 'x'\nlost = [{}, { output = -1 }]", "s.toml:1: rule 1: usage is negative"},
		{"[[rule]]\nfault = 'x'", `s.toml:1: rule 1: fault "x": must be hangup, malformed, html or redirect`},
		{"[[rule]]\nerror = { kind = 'x' }", `s.toml:1: rule 1: error: kind "x" is not known`},
		{"[[rule]]\nerror = { kind = 'server', status = 200 }", "s.toml:1: rule 1: error: status 200: must be between 400 and 599"},
		{"[[rule]]\nhang = true\nfault = 'hangup'", "s.toml:1: rule 1: hang, fault, error, and tool_calls or stop exclude each other"},
		{"[captures]\nA = 'x'\n[[rule]]\ntext = 'x'", `s.toml:1: capture "A": a name has small letters, digits and _`},
		{"[captures]\na = 1\n[[rule]]\ntext = 'x'", "s.toml:1: capture a: must be a pattern or a table with one"},
		{"[captures]\na = '('\n[[rule]]\ntext = 'x'", "s.toml:1: capture a: error parsing regexp: missing closing ): `(`"},
		{"[captures]\na = { match = 1 }\n[[rule]]\ntext = 'x'", "s.toml:1: capture a: pattern is missing"},
		{"[captures]\na = { pattern = 'x', match = 0 }\n[[rule]]\ntext = 'x'", "s.toml:1: capture a: match has a wrong value"},
		{"[captures]\na = { pattern = 'x', text = 'y' }\n[[rule]]\ntext = 'x'", "s.toml:1: capture a: text and workspace cannot be combined with other keys"},
		{"[captures]\na = { workspace = 'y' }\n[[rule]]\ntext = 'x'", "s.toml:1: capture a: workspace has a wrong value"},
		{"[captures]\na = { workspace = false }\n[[rule]]\ntext = 'x'", "s.toml:1: capture a: pattern is missing"},
		{"[captures]\na = { pattern = 'x', nth = 1 }\n[[rule]]\ntext = 'x'", "s.toml:1: capture a: unknown key nth"},
	}
	for _, tt := range tests {
		_, err := Parse("s.toml", []byte(tt.text))
		var e *Error
		if !errors.As(err, &e) || e.Error() != tt.want {
			t.Errorf("Parse(%q) = %v, want %s", tt.text, err, tt.want)
		}
	}
}

func TestNew(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "out.toml")
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(outside, "[[rule]]\ntext = 'x'")
	write(filepath.Join(dir, "models/ok.toml"), "[[rule]]\nvariant = 'v'\ntext = 'v'\n[[rule]]\ntext = 'x'")
	write(filepath.Join(dir, "bad.toml"), "[[rule]]\n")
	write(filepath.Join(dir, "big.toml"), strings.Repeat("#", maxFile+1))
	if err := os.Symlink(outside, filepath.Join(dir, "link.toml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("models/ok.toml", filepath.Join(dir, "inside.toml")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo.toml"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(name, dir string) (model.Stream, error) {
		s, _, err := model.Open(t.Context(), "script/"+name, map[string]model.Provider{"script": New}, model.Providers{Dir: dir})
		return s, err
	}
	for name, want := range map[string]string{"models/ok.toml": "text x\n", "models/ok.toml#v": "text v\n", "inside.toml": "text x\n"} {
		s, err := open(name, dir)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := modeltest.Read(t, t.Context(), s, model.Request{Messages: []model.Message{user("q")}}); !strings.HasPrefix(got, want) || err != nil {
			t.Errorf("%s: reply = %q, %v", name, got, err)
		}
	}
	for _, tt := range []struct{ name, dir, want string }{
		{"none.toml", dir, "script: none.toml: no such file or directory"},
		{"models", dir, "script: models: is a folder, not a file"},
		{"fifo.toml", dir, "script: fifo.toml: is not a regular file"},
		{"big.toml", dir, "script: big.toml: larger than 8 MiB"},
		{"link.toml", dir, "script: link.toml: path escapes from parent"},
		{"../out.toml", dir, "script: ../out.toml: must be a path inside the workspace"},
		{outside, dir, "script: " + outside + ": must be a path inside the workspace"},
		{"#v", dir, "script: #v: must be a path inside the workspace"},
		{"models/ok.toml", "", "script: models/ok.toml: there is no workspace to find it in"},
		{"bad.toml", dir, "script: bad_request: bad.toml:1: rule 1: says nothing: text, tool_calls, error, fault, hang or stop is missing"},
	} {
		if _, err := open(tt.name, tt.dir); fmt.Sprint(err) != tt.want {
			t.Errorf("%s: error = %v, want %s", tt.name, err, tt.want)
		}
	}
}

// TestStateless: a script may answer any number of requests at once.
func TestStateless(t *testing.T) {
	s := parse(t, "[captures]\na = 'n=(\\d+)'\n[[rule]]\ntext = '{{a}}'").Stream("script", "")
	for i := range 20 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			got, err := modeltest.Read(t, t.Context(), s, modeltest.Ask(fmt.Sprintf("n=%d", i)))
			if err != nil || !strings.HasPrefix(got, fmt.Sprintf("text %d\n", i)) {
				t.Errorf("reply = %q, %v", got, err)
			}
		})
	}
}

// TestParseNesting: what costs the decoder minutes is refused first.
func TestParseNesting(t *testing.T) {
	_, err := Parse("x.toml", []byte("\n"+strings.Repeat("a.", 30_000)+"a = 1"))
	if want := "x.toml:2: nested deeper than 24 levels"; err == nil || err.Error() != want {
		t.Errorf("Parse = %.200v, want %s", err, want)
	}
}

// FuzzParse: any bytes are a script or an *Error, and a script answers or fails.
func FuzzParse(f *testing.F) {
	f.Add([]byte("[captures]\na = 'x(y)?'\nb = { pattern = 'z', match = -1, default = '' }\n[[rule]]\nprofile = ['a', '*']\nturn = 1\ntext = '{{a}}{{b}}'\n"))
	f.Add([]byte("[defaults]\nchunk = 3\n[[rule]]\ntool_calls = [{ name = 't', arguments = { a = [1, { b = 1979-05-27 }] } }, { name = 'u', raw_arguments = '{' }]\nusage = { input = 1 }\n"))
	f.Add([]byte("[recorded]\nstopped = 'x'\n[recorded.models.'a/b']\nprice = { input = 1, long = { output = 2 } }\n[[rule]]\nrun = '1.2'\nround = 0\nattempt = 1\n" +
		"no_calls = false\nasked = 'jp-c1'\ncaptures = { w = { workspace = true }, open = { text = '{{' } }\nreasoning = ['{{w}}', '']\ntext = '{{open}}'\n"))
	f.Add([]byte("[[rule]]\nerror = { kind = 'server', status = 500, retry_after = '1s', message = '{{x}}' }\n[rule.captures]\nx = '.*'\n"))
	f.Add([]byte("[[rule]]\nfault = 'hangup'\nstop = \"\"\"\n[[rule]]\"\"\""))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("s.toml", data)
		var e *Error
		if err != nil {
			if !errors.As(err, &e) || e.Line < 0 || e.Line > strings.Count(string(data), "\n")+1 {
				t.Fatalf("error = %#v", err)
			}
			return
		}
		for i := range s.rules {
			s.rules[i].delay, s.rules[i].chunkDelay, s.rules[i].hang = 0, 0, false
		}
		r := modeltest.Ask("a xy z")
		r.Turn, r.Round = 1, 1
		_, _ = modeltest.Read(t, t.Context(), s.Stream("script", ""), r) // it checks the reply
	})
}
