package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

// TestCountCharges: what a request that came to nothing is charged, by how far it came.
func TestCountCharges(t *testing.T) {
	cancelled := errors.New("enough")
	r := ask(strings.Repeat("a question, ", 100))
	r.MaxTokens = 5
	in := r.Estimate()
	stream := func(w http.ResponseWriter, events string) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, events)
		_ = http.NewResponseController(w).Flush()
	}
	body := func(kind, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, text)
		}
	}
	long := strings.Repeat("paid ", 20000)
	status := func(n int) http.HandlerFunc { return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(n) } }
	cut := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	x := func(n int) string { return strings.Repeat("x", n) }
	broken := func(events ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) {
			for _, e := range events {
				var named struct{ Type string }
				_ = json.Unmarshal([]byte(e), &named)
				stream(w, "event: "+named.Type+"\ndata: "+e+"\n\n")
			}
			cut(w, req)
		}
	}
	for _, tt := range []struct {
		name   string
		serve  http.HandlerFunc // nil = nobody listens; what does not answer is cancelled
		ids    string
		charge convstore.Usage
	}{
		{"nobody listens", nil, "anthropic openai responses", convstore.Usage{}},
		{"too many requests", status(429), "anthropic openai responses", convstore.Usage{}},
		{"overloaded", status(529), "anthropic openai responses", convstore.Usage{}},
		{"server error", status(500), "anthropic openai responses", convstore.Usage{}},
		{"refused", status(400), "anthropic openai responses", convstore.Usage{}},
		{"sign in first", body("text/html", "<html>"), "anthropic openai responses", convstore.Usage{}},
		{"an error instead of a stream", body("application/json", `{"error":{"message":"busy"}}`), "anthropic openai responses", convstore.Usage{}},
		{"an error that cost something", body("application/json", `{"error":{"message":"busy"},"usage":{"prompt_tokens":50000,"completion_tokens":7}}`), "openai", convstore.Usage{Input: 50000, Output: 7}},
		{"not a stream", body("application/json", `{"content":[{"type":"text","text":"`+long+`"}],"stop_reason":"end_turn","usage":{"input_tokens":50000,"output_tokens":2000}}`),
			"anthropic", convstore.Usage{Input: 50000, Output: 2000}},
		{"not a stream", body("application/json; charset=utf-8", `{"choices":[{"message":{"content":"`+long+`"},"finish_reason":"stop"}],"usage":{"prompt_tokens":50000,"completion_tokens":2000}}`),
			"openai", convstore.Usage{Input: 50000, Output: 2000}},
		{"not a stream", body("text/plain", `{"output":[{"text":"`+long+`"}],"error":null,"usage":{"input_tokens":50000,"output_tokens":2000}}`),
			"responses", convstore.Usage{Input: 50000, Output: 2000}},
		{"not a stream, after blanks", body("text/plain", "\n  \n"+`{"choices":[{"message":{"content":"`+long+`"}}],"usage":{"prompt_tokens":50000,"completion_tokens":2000}}`),
			"openai", convstore.Usage{Input: 50000, Output: 2000}},
		{"not a stream, labelled as a page", body("text/html", `{"choices":[{"message":{"content":"`+long+`"}}],"usage":{"prompt_tokens":50000,"completion_tokens":2000}}`),
			"openai", convstore.Usage{Input: 50000, Output: 2000}},
		{"a stream labelled as a page", body("text/html; charset=UTF-8", "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":50000,\"completion_tokens\":2000}}\n\n"),
			"openai", convstore.Usage{Input: 50000, Output: 2000}},
		{"not a stream, without usage", body("application/json", `{"text":"`+strings.Repeat("x", 289)+`"}`), "anthropic openai responses", convstore.Usage{Input: in, Output: 101}},
		{"not a stream, with an empty usage", body("application/json", `{"text":"`+strings.Repeat("x", 278)+`","usage":{}}`), "anthropic openai responses", convstore.Usage{Input: in, Output: 101}},
		{"not a stream, cut", func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Length", "5000")
			body("application/json", `{"text":"`+strings.Repeat("x", 291))(w, req)
			_ = http.NewResponseController(w).Flush()
			cut(w, req)
		}, "anthropic openai responses", convstore.Usage{Input: in, Output: 101}},
		{"no answer yet", func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() }, "anthropic openai responses", convstore.Usage{Input: in}},
		{"cut without an answer", cut, "anthropic openai responses", convstore.Usage{Input: in}},
		{"cut after the headers", func(w http.ResponseWriter, req *http.Request) { stream(w, ""); cut(w, req) }, "anthropic openai responses", convstore.Usage{Input: in}},
		{"refused after the headers", func(w http.ResponseWriter, _ *http.Request) {
			stream(w, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n")
		}, "anthropic", convstore.Usage{Input: in}},
		{"counted, then cut", func(w http.ResponseWriter, req *http.Request) {
			stream(w, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"usage\":{\"input_tokens\":2800,\"output_tokens\":1}}}\n\n")
			cut(w, req)
		}, "anthropic", convstore.Usage{Input: 2800, Output: 1}},
		{"cut at its limit", broken(`{"choices":[{"delta":{"content":"` + x(30) + `"}}]}`), "openai", convstore.Usage{Input: in, Output: 5}},
		{"cut, beyond its limit", broken(`{"choices":[{"delta":{"content":"` + x(300) + `"}}]}`), "openai", convstore.Usage{Input: in, Output: 101}},
		{"cut, encrypted reasoning", broken(`{"choices":[{"delta":{"reasoning":"` + x(10) + `","reasoning_details":[{"type":"reasoning.text","text":"` + x(10) + `"},{"type":"reasoning.encrypted","data":"` + x(290) + `"}]}}]}`),
			"openai", convstore.Usage{Input: in, Output: 101}},
		{"cut, summary of reasoning", broken(`{"choices":[{"delta":{"reasoning_details":[{"summary":"` + x(300) + `"}]}}]}`), "openai", convstore.Usage{Input: in, Output: 101}},
		{"cut, signature of a call", broken(`{"choices":[{"delta":{"tool_calls":[{"extra_content":"` + x(298) + `"}]}}]}`), "openai", convstore.Usage{Input: in, Output: 101}},
		{"cut, signature in an id", broken(`{"choices":[{"delta":{"tool_calls":[{"id":"call_1__thought__` + x(300) + `"}]}}]}`), "openai", convstore.Usage{Input: in, Output: 101}},
		{"cut, whole call", broken(`{"type":"content_block_start","content_block":{"type":"tool_use","name":"echo","input":{"a":"` + x(288) + `"}}}`), "anthropic", convstore.Usage{Input: in, Output: 101}},
		{"cut, redacted thinking", broken(`{"type":"content_block_start","content_block":{"type":"redacted_thinking","data":"` + x(300) + `"}}`), "anthropic", convstore.Usage{Input: in, Output: 101}},
		{"cut, signature", broken(`{"type":"content_block_start","content_block":{"type":"thinking","signature":"`+x(100)+`"}}`,
			`{"type":"content_block_delta","delta":{"type":"signature_delta","signature":"`+x(200)+`"}}`), "anthropic", convstore.Usage{Input: in, Output: 101}},
		{"cut, unknown block", broken(`{"type":"content_block_start","content_block":{"type":"server_tool_use","name":"echo","input":{"a":"` + x(292) + `"}}}`), "anthropic", convstore.Usage{Input: in, Output: 101}},
		{"cut, whole call", broken(`{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","call_id":"c","name":"echo","arguments":"` + x(296) + `"}}`),
			"responses", convstore.Usage{Input: in, Output: 101}},
		{"cut, call in pieces", broken(`{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","name":"echo"}}`,
			`{"type":"response.function_call_arguments.delta","output_index":1,"delta":"`+x(300)+`"}`,
			`{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","call_id":"c","name":"echo","arguments":"`+x(300)+`"}}`),
			"responses", convstore.Usage{Input: in, Output: 101}},
		{"cut, encrypted reasoning", broken(`{"type":"response.output_item.done","item":{"type":"reasoning","summary":[{"text":"` + x(10) + `"}],"encrypted_content":"` + x(290) + `"}}`),
			"responses", convstore.Usage{Input: in, Output: 101}},
		{"cut, reasoning after a call", broken(`{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","call_id":"c","name":"echo","arguments":"{}"}}`,
			`{"type":"response.output_item.done","output_index":2,"item":{"type":"reasoning","content":[{"text":"`+x(94)+`"}],"encrypted_content":"`+x(200)+`"}}`),
			"responses", convstore.Usage{Input: in, Output: 101}},
		{"cut, unknown item", broken(`{"type":"response.custom_tool_call_input.delta","delta":"` + x(300) + `"}`), "responses", convstore.Usage{Input: in, Output: 101}},
		{"cut within a call", func(w http.ResponseWriter, req *http.Request) {
			stream(w, `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"echo","arguments":"`+strings.Repeat("x", 296)+"\"}}]}}]}\n\n")
			cut(w, req)
		}, "openai", convstore.Usage{Input: in, Output: 101}},
	} {
		for _, id := range strings.Fields(tt.ids) {
			t.Run(tt.name+"/"+id, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				url := "http://" + unused(t)
				if tt.serve != nil {
					server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
						_, _ = io.Copy(io.Discard, req.Body)
						if tt.name == "no answer yet" {
							cancel(cancelled)
						}
						tt.serve(w, req)
					}))
					defer server.Close()
					url = server.URL
				}
				got := collect(t, model.Count(open(t, id+"/wire", url)), ctx, r)
				if got.err == nil {
					t.Error("no error")
				}
				charge := convstore.Usage{}
				if got.usage != nil {
					charge = *got.usage
				}
				if charge != tt.charge {
					t.Errorf("charged %+v, want %+v; %v", charge, tt.charge, got.err)
				}
			})
		}
	}
}

// unused is an address at which nobody listens.
func unused(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
