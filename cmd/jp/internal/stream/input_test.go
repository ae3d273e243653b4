package stream

import (
	"strings"
	"testing"
)

func TestReadUserLine(t *testing.T) {
	user := func(content string) string {
		return `{"type":"user","message":{"role":"user","content":` + content + `}}`
	}
	for _, test := range []struct{ name, in, want, err string }{
		{"text", user(`"Why?\nSo"`), "Why?\nSo", ""},
		{"blocks", user(`[{"type":"text","text":"a"},{"type":"text","text":"b"}]`), "a\nb", ""},
		{"other keys, empty lines, CRLF", "\r\n" + `{"type":"user","uuid":"x","parent_tool_use_id":null,"session_id":"s","message":{"role":"user","content":"a"}}` + "\r\n\n", "a", ""},
		{"nothing", "\n \n", "", "no message; want one line of type user"},
		{"two", user(`"a"`) + "\n" + user(`"b"`), "", "line 2: one message is one run; the next goes on with --resume"},
		{"a request", `{"type":"control_request"}`, "", `line 1: type "control_request" is not read here; only user is`},
		{"no message", `{"type":"user"}`, "", "line 1: message: is missing"},
		{"another role", `{"type":"user","message":{"role":"system","content":"a"}}`, "", `line 1: message: role is "system", not user`},
		{"an image", user(`[{"type":"image"}]`), "", `line 1: message: content: a block of type "image" is not read here; only text is`},
		{"a number", user(`1`), "", "line 1: message: content is neither a text nor a list of blocks"},
		{"no content", `{"type":"user","message":{"role":"user"}}`, "", "line 1: message: content is neither a text nor a list of blocks"},
		{"null", user(`null`), "", "line 1: message: content is empty"},
		{"blank", user(`" "`), "", "line 1: message: content is empty"},
		{"no JSON", "hello", "", "line 1: invalid character 'h' looking for beginning of value"},
	} {
		got, err := ReadUserLine([]byte(test.in))
		if e := errorText(err); got != test.want || e != test.err {
			t.Errorf("%s: ReadUserLine(%q) = %q, %q, want %q, %q", test.name, test.in, got, e, test.want, test.err)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func FuzzReadUserLine(f *testing.F) {
	f.Add([]byte(`{"type":"user","message":{"role":"user","content":"a"}}`))
	f.Add([]byte(`{"type":"user","message":{"role":"user","content":[{"type":"text","text":"a"}]}}`))
	f.Add([]byte("\n\n{"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if text, err := ReadUserLine(b); err == nil && strings.TrimSpace(text) == "" {
			t.Fatalf("ReadUserLine(%q) = %q without an error", b, text)
		}
	})
}
