package stream

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestOneMessage(t *testing.T) {
	user := func(content string) string {
		return `{"type":"user","message":{"role":"user","content":` + content + `}}`
	}
	for _, test := range []struct{ name, in, want, err string }{
		{"text", user(`"Why?\nSo"`), "Why?\nSo", ""},
		{"blocks", user(`[{"type":"text","text":"a"},{"type":"text","text":"b"}]`), "a\nb", ""},
		{"other keys, empty lines, CRLF", "\r\n" + `{"type":"user","uuid":"x","parent_tool_use_id":null,"session_id":"s","message":{"role":"user","content":"a"}}` + "\r\n\n", "a", ""},
		{"says nothing", `{"type":"keep_alive"}` + "\n" + user(`"a"`), "a", ""},
		{"nothing", "\n \n", "", "no message; want one line of type user"},
		{"two", user(`"a"`) + "\n" + user(`"b"`), "", "line 2: jp answers one message here; send the next with --resume"},
		{"a request", `{"type":"control_request","request_id":"1","request":{"subtype":"interrupt"}}`, "", "line 1: a control request is answered with --output-format stream-json only"},
		{"a request without an id", `{"type":"control_request"}`, "", "line 1: control_request: request_id is missing"},
		{"a request without a kind", `{"type":"control_request","request_id":"1"}`, "", "line 1: control_request 1: request: has no subtype"},
		{"an answer", `{"type":"control_response","response":{"subtype":"success","request_id":"1"}}`, "", "line 1: an answer came, and nothing was asked"},
		{"an answer to nothing", `{"type":"control_response"}`, "", "line 1: control_response: response: has no request_id"},
		{"a type that is not known", `{"type":"x"}`, "", `line 1: type "x" is not read here; only user and control_request are`},
		{"no message", `{"type":"user"}`, "", "line 1: message: is missing"},
		{"another role", `{"type":"user","message":{"role":"system","content":"a"}}`, "", `line 1: message: role is "system", not user`},
		{"to a sub-agent", `{"type":"user","parent_tool_use_id":"x","message":{"role":"user","content":"a"}}`, "",
			`line 1: message: parent_tool_use_id is "x", and sub-agents take no messages`},
		{"not to be answered", `{"type":"user","shouldQuery":false,"message":{"role":"user","content":"a"}}`, "",
			"line 1: message: shouldQuery is false, and each message is answered here"},
		{"an image", user(`[{"type":"image"}]`), "", `line 1: message: content: a block of type "image" is not read here; only text is`},
		{"a number", user(`1`), "", "line 1: message: content is neither a text nor a list of blocks"},
		{"too many", user("[" + strings.Repeat("1,", 1<<18) + "1]"), "", "line 1: more than 262144 values"},
		{"no content", `{"type":"user","message":{"role":"user"}}`, "", "line 1: message: content is neither a text nor a list of blocks"},
		{"null", user(`null`), "", "line 1: message: content is empty"},
		{"blank", user(`" "`), "", "line 1: message: content is empty"},
		{"bytes that are no text", user("\"caf\xe9\""), "", "line 1: not UTF-8 text"},
		{"no JSON", "hello", "", "line 1: invalid character 'h' looking for beginning of value"},
	} {
		var m OneMessage
		var err error
		for _, line := range strings.SplitAfter(test.in, "\n") {
			if err = m.Add([]byte(line)); err != nil {
				break
			}
		}
		got := ""
		if err == nil {
			got, err = m.Text()
		}
		if e := errorText(err); got != test.want || e != test.err {
			t.Errorf("%s: OneMessage of %.200q = %q, %q, want %q, %q", test.name, test.in, got, e, test.want, test.err)
		}
	}
}

func TestReadStart(t *testing.T) {
	for _, test := range []struct {
		in   string
		want Start
		err  string
	}{
		{`"systemPrompt":[""],"hooks":{},"skills":null,"promptSuggestions":true`, Start{}, ""},
		{`"jsonSchema":{"type":"object"},"appendSystemPrompt":"Be loud.","title":"T"`, Start{json.RawMessage(`{"type":"object"}`), "Be loud.", "T"}, ""},
		{`"systemPrompt":["","You are x."]`, Start{}, "initialize: systemPrompt: a profile holds it: --cfg NAME; appendSystemPrompt adds to it"},
		{`"systemPrompt":"You are x."`, Start{}, "initialize: systemPrompt: a profile holds it: --cfg NAME; appendSystemPrompt adds to it"},
		{`"systemPrompt":{"file":"x"}`, Start{}, "initialize: systemPrompt: a profile holds it: --cfg NAME; appendSystemPrompt adds to it"},
		{`"hooks":{"PreToolUse":[{}]}`, Start{}, "initialize: hooks: are not called here"},
		{`"sdkMcpServers":["x"]`, Start{}, "initialize: sdkMcpServers: tools in the process of the client are not called here"},
		{`"title":1`, Start{}, "initialize: title: want a string, not a number"},
	} {
		in, err := ReadInput([]byte(`{"type":"control_request","request_id":"1","request":{"subtype":"initialize",` + test.in + `}}`))
		if err != nil {
			t.Fatalf("ReadInput(%s): %v", test.in, err)
		}
		var got Start
		if in.Control.Start != nil {
			got = *in.Control.Start
		}
		if e := errorText(in.Control.Err); !reflect.DeepEqual(got, test.want) || e != test.err {
			t.Errorf("initialize with %s = %+v, %q, want %+v, %q", test.in, got, e, test.want, test.err)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func FuzzReadInput(f *testing.F) {
	f.Add([]byte(`{"type":"user","message":{"role":"user","content":"a"}}`))
	f.Add([]byte(`{"type":"user","message":{"role":"user","content":[{"type":"text","text":"a"}]}}`))
	f.Add([]byte(`{"type":"control_request","request_id":"1","request":{"subtype":"initialize","systemPrompt":[""]}}`))
	f.Add([]byte(`{"type":"control_response","response":{"subtype":"success","request_id":"jp-1","response":{"behavior":"allow","updatedInput":{"a":1}}}}`))
	f.Add([]byte(`{"type":"control_response","response":{"subtype":"error","request_id":"jp-1","error":"x"}}`))
	f.Add([]byte("\n\n{"))
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := ReadInput(b)
		switch {
		case err != nil:
		case in.Control != nil && (in.Control.ID == "" || in.Control.Subtype == "" || in.Control.Subtype == Initialize && (in.Control.Start == nil) != (in.Control.Err != nil)):
			t.Fatalf("ReadInput(%q) = %+v", b, *in.Control)
		case in.Reply != nil && (in.Reply.ID == "" || in.Reply.Allow && (in.Reply.Err != nil || in.Reply.Interrupt)):
			t.Fatalf("ReadInput(%q) = %+v", b, *in.Reply)
		case in.Control == nil && in.Text != "" && (strings.TrimSpace(in.Text) == "" || !json.Valid(in.Message)):
			t.Fatalf("ReadInput(%q) = %+v", b, in)
		}
	})
}
