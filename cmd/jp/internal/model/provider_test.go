package model_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/model/anthropic"
	"jp/cmd/jp/internal/model/openai"
	"jp/cmd/jp/internal/model/script"
	"jp/cmd/jp/internal/test/wire"
	"jp/convstore"
)

var constructors = map[string]model.Provider{"anthropic": anthropic.New, "openai": openai.New, "script": script.New}

const (
	anthropicKey = "sk-ant-secret-0123456789"
	openaiKey    = "sk-secret-9876543210"
)

// environ returns the environment of a machine with keys and a server at url.
func environ(url string) func(string) string {
	return func(name string) string {
		return map[string]string{
			"ANTHROPIC_API_KEY":  anthropicKey,
			"ANTHROPIC_BASE_URL": url,
			"OPENAI_API_KEY":     openaiKey,
			"OPENAI_BASE_URL":    url + "/v1",
			"OLLAMA_HOST":        url,
		}[name]
	}
}

// serve starts a server that follows a script.
func serve(t *testing.T, text string) *wire.Server {
	t.Helper()
	s, err := script.Parse("test.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	server, err := wire.Start(wire.Variants(s), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server
}

// providers is a machine with keys and a server at url.
func providers(url string) model.Providers {
	return model.Providers{Env: environ(url), LLM: map[string]model.Endpoint{
		"responses": {Type: "openai", BaseURL: url + "/v1", APIKeyEnv: "OPENAI_API_KEY", API: model.Responses},
	}}
}

// open returns the stream of a model served at url.
func open(t *testing.T, id, url string) model.Stream {
	t.Helper()
	s, _, err := model.Open(t.Context(), id, constructors, providers(url))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// formats runs a test against all wire formats.
func formats(t *testing.T, run func(t *testing.T, id string)) {
	for _, id := range []string{"anthropic/wire", "openai/wire", "ollama/wire", "responses/wire"} {
		t.Run(strings.TrimSuffix(id, "/wire"), func(t *testing.T) { run(t, id) })
	}
}

// ask returns a request with one question.
func ask(question string) model.Request {
	return model.Request{Model: "wire", Messages: []model.Message{user(question)}, Turn: 1, Round: 1}
}

func user(text string) model.Message {
	return model.Message{Role: model.User, Content: []model.Content{{Text: text}}}
}

// reply is a whole reply.
type reply struct {
	text, reasoning string
	blocks          []model.Reasoning
	calls           []model.Call
	usage           *convstore.Usage
	stop            model.Stop
	err             error
	parts           int
}

// collect reads a reply to its end and checks what each Stream promises.
func collect(t *testing.T, s model.Stream, ctx context.Context, r model.Request) reply {
	t.Helper()
	var out reply
	for p, err := range s(ctx, r) {
		if out.stop != "" || out.err != nil {
			t.Errorf("the stream went on after its end: %+v, %v", p, err)
		}
		if err != nil {
			out.err = err
			continue
		}
		if out.usage != nil && p.Stop == "" {
			t.Errorf("%+v came after the usage", p)
		}
		out.parts++
		set := 0
		for _, b := range []bool{p.Text != "", p.ReasoningDelta != "", p.Reasoning != nil, p.CallDelta != "", p.Call != nil, p.Usage != nil, p.Stop != ""} {
			if b {
				set++
			}
		}
		if set != 1 {
			t.Errorf("a part with %d fields set: %+v", set, p)
		}
		out.text += p.Text
		out.reasoning += p.ReasoningDelta
		if p.Reasoning != nil {
			out.blocks = append(out.blocks, *p.Reasoning)
		}
		if p.Call != nil {
			out.calls = append(out.calls, *p.Call)
		}
		if p.Usage != nil {
			out.usage = p.Usage
		}
		out.stop = p.Stop
	}
	if (out.stop == "") == (out.err == nil) {
		t.Errorf("a stream with stop %q and error %v", out.stop, out.err)
	}
	return out
}

// want checks the kind of a failed reply and returns the error.
func (r reply) want(t *testing.T, kind model.Kind) *model.Error {
	t.Helper()
	var e *model.Error
	if !errors.As(r.err, &e) {
		t.Fatalf("error = %v, want an *Error of kind %s", r.err, kind)
	}
	if e.Kind != kind {
		t.Fatalf("error = %v (kind %s), want kind %s", e, e.Kind, kind)
	}
	key := map[string]string{"anthropic": anthropicKey, "openai": openaiKey}[e.Provider]
	if key != "" && strings.Contains(fmt.Sprintf("%v %+v %s", e, *e, e.Hint), key) {
		t.Errorf("the error holds the key: %v", e)
	}
	return e
}

func TestReply(t *testing.T) {
	server := serve(t, `
[[rule]]
reasoning = "Let me see. "
text = "Grüße, 世界! All of it came in pieces."
chunk = 5
tool_calls = [
  { id = "call_a", name = "fs_read_file", arguments = { path = "a.go", lines = [1, 2], deep = { x = "ü\"\\" } } },
  { id = "call_b", name = "fs_read_file", raw_arguments = "{\"path\": " },
  { id = "call_c", name = "fs_list_files" },
]
usage = { input = 100, output = 20, cache_read = 1000, cache_write = 300 }
`)
	formats(t, func(t *testing.T, id string) {
		got := collect(t, open(t, id, server.URL), t.Context(), ask("hello"))
		if got.err != nil {
			t.Fatal(got.err)
		}
		if want := "Grüße, 世界! All of it came in pieces."; got.text != want {
			t.Errorf("text = %q, want %q", got.text, want)
		}
		if want := "Let me see. "; got.reasoning != want {
			t.Errorf("reasoning = %q, want %q", got.reasoning, want)
		}
		provider := strings.TrimSuffix(id, "/wire")
		if len(got.blocks) != 1 || got.blocks[0].Text != "Let me see. " || got.blocks[0].Provider != provider {
			t.Errorf("blocks of reasoning = %+v", got.blocks)
		}
		want := []model.Call{
			{ID: "call_a", Name: "fs_read_file", Arguments: []byte(`{"deep":{"x":"ü\"\\"},"lines":[1,2],"path":"a.go"}`)},
			{ID: "call_b", Name: "fs_read_file", Arguments: []byte(`{"path": `)},
			{ID: "call_c", Name: "fs_list_files", Arguments: []byte(`{}`)},
		}
		if !slices.EqualFunc(got.calls, want, func(a, b model.Call) bool {
			return a.ID == b.ID && a.Name == b.Name && string(a.Arguments) == string(b.Arguments)
		}) {
			t.Errorf("calls = %s, want %s", got.calls, want)
		}
		if want := (convstore.Usage{Input: 100, Output: 20, CacheRead: 1000, CacheWrite: 300}); got.usage == nil || *got.usage != want {
			t.Errorf("usage = %+v, want %+v", got.usage, want)
		}
		if got.stop != model.StopToolUse {
			t.Errorf("stop = %q, want %q", got.stop, model.StopToolUse)
		}
	})
}

func TestStops(t *testing.T) {
	server := serve(t, `
[[rule]]
contains = "none"
text = ""
[[rule]]
contains = "cut"
text = "so far"
stop = "max_tokens"
[[rule]]
contains = "no"
text = "I will not."
stop = "refusal"
[[rule]]
text = "done"
`)
	for question, want := range map[string]model.Stop{
		"none": model.StopEnd, "cut": model.StopMaxTokens, "no": model.StopRefusal, "yes": model.StopEnd,
	} {
		formats(t, func(t *testing.T, id string) {
			got := collect(t, open(t, id, server.URL), t.Context(), ask(question))
			if got.err != nil || got.stop != want {
				t.Errorf("%s: stop = %q, %v, want %q", question, got.stop, got.err, want)
			}
		})
	}
}

// TestFailures: every failure of a provider is one error of the right kind.
func TestFailures(t *testing.T) {
	server := serve(t, `
[[rule]]
contains = "auth"
error = { kind = "auth", message = "invalid key sk-ant-secret-0123456789 sk-secret-9876543210" }
[[rule]]
contains = "quota"
error = { kind = "quota", message = "no credit left" }
[[rule]]
contains = "rate"
error = { kind = "rate_limit", retry_after = "1.5s", message = "too fast" }
[[rule]]
contains = "overloaded"
error = { kind = "overloaded", message = "busy" }
[[rule]]
contains = "server"
error = { kind = "server", message = "oops" }
[[rule]]
contains = "unavailable"
error = { kind = "overloaded", status = 503, message = "busy" }
[[rule]]
contains = "request"
error = { kind = "bad_request", message = "no such thing" }
[[rule]]
contains = "unknown"
error = { kind = "unknown_model", message = "wire" }
[[rule]]
contains = "large"
error = { kind = "too_large", message = "too much" }
[[rule]]
contains = "context"
error = { kind = "context", message = "9 tokens" }
[[rule]]
contains = "page"
fault = "html"
[[rule]]
contains = "redirect"
fault = "redirect"
[[rule]]
contains = "gone"
fault = "hangup"
`)
	tests := []struct {
		question  string
		kind      model.Kind
		status    int
		message   string
		temporary bool
	}{
		{"auth", model.KindAuth, 401, "", false},
		{"quota", model.KindQuota, 402, "no credit left", false},
		{"rate", model.KindRateLimit, 429, "too fast", true},
		{"overloaded", model.KindOverloaded, 529, "busy", true},
		{"unavailable", model.KindOverloaded, 503, "busy", true},
		{"server", model.KindServer, 500, "oops", true},
		{"request", model.KindBadRequest, 400, "no such thing", false},
		{"unknown", model.KindUnknownModel, 404, "", false},
		{"large", model.KindTooLarge, 413, "too much", false},
		{"context", model.KindContext, 400, "", false},
		{"page", model.KindStream, 200, "answered with text/html, not with an event stream", false},
		{"redirect", model.KindBadRequest, 0, "redirected to http://elsewhere.invalid/v1/: refused, since a key would go along", false},
		{"gone", model.KindNetwork, 0, "the connection was closed without an answer", true},
	}
	for _, tt := range tests {
		t.Run(tt.question, func(t *testing.T) {
			formats(t, func(t *testing.T, id string) {
				got := collect(t, open(t, id, server.URL), t.Context(), ask(tt.question))
				e := got.want(t, tt.kind)
				if e.Status != tt.status || e.Temporary() != tt.temporary {
					t.Errorf("%v: status %d, temporary %t, want %d, %t", e, e.Status, e.Temporary(), tt.status, tt.temporary)
				}
				if tt.message != "" && e.Message != tt.message {
					t.Errorf("message = %q, want %q", e.Message, tt.message)
				}
				if tt.question == "rate" && e.RetryAfter != 1500*time.Millisecond {
					t.Errorf("retry after = %v, want 1.5s", e.RetryAfter)
				}
				if tt.question == "auth" && !strings.HasPrefix(id, "ollama") && !strings.Contains(e.Message, "[key]") {
					t.Errorf("message = %q, want the key replaced", e.Message)
				}
			})
		})
	}
}

// TestBrokenReplies: what breaks after something was said keeps what was said, and is an error.
func TestBrokenReplies(t *testing.T) {
	server := serve(t, `
[[rule]]
contains = "hangup"
text = "so far, so"
fault = "hangup"
[[rule]]
contains = "malformed"
text = "so far, so"
fault = "malformed"
[[rule]]
contains = "overloaded"
text = "so far, so"
error = { kind = "overloaded", message = "busy" }
`)
	for question, kinds := range map[string][]model.Kind{
		"hangup":    {model.KindStream},
		"malformed": {model.KindStream},
		// OpenAI's format has no word for it in the middle of a stream.
		"overloaded": {model.KindOverloaded, model.KindServer},
	} {
		formats(t, func(t *testing.T, id string) {
			got := collect(t, open(t, id, server.URL), t.Context(), ask(question))
			e := got.want(t, kinds[min(len(kinds)-1, map[bool]int{true: 0, false: 1}[strings.HasPrefix(id, "anthropic")])])
			if got.text != "so far, so" {
				t.Errorf("%s: text = %q, want what was said", question, got.text)
			}
			if strings.HasPrefix(id, "anthropic") && (got.usage == nil || got.usage.Input == 0) {
				t.Errorf("%s: usage = %+v, want what message_start told", question, got.usage)
			}
			if question == "overloaded" && e.Message != "busy" {
				t.Errorf("message = %q, want busy", e.Message)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	server := serve(t, `
[[rule]]
contains = "silent"
hang = true
[[rule]]
text = "so far"
hang = true
`)
	cause := errors.New("enough of it")
	for _, question := range []string{"silent", "says something"} {
		formats(t, func(t *testing.T, id string) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			s := open(t, id, server.URL)
			n := len(server.Requests())
			if question == "silent" {
				go func() {
					for len(server.Requests()) == n {
						select {
						case <-ctx.Done():
							return
						default:
							time.Sleep(time.Millisecond) // polls for the request, decides nothing
						}
					}
					cancel(cause)
				}()
			}
			var got error
			for p, err := range s(ctx, ask(question)) {
				if got = err; p.Text != "" {
					cancel(cause)
				}
			}
			if got != cause {
				t.Errorf("%s: error = %v, want the cause", question, got)
			}
		})
	}
}

// TestStopReading: a consumer that ends the iteration leaves no request behind.
func TestStopReading(t *testing.T) {
	server := serve(t, "[[rule]]\ntext = 'so far'\nhang = true")
	formats(t, func(t *testing.T, id string) {
		for p, err := range open(t, id, server.URL)(t.Context(), ask("x")) {
			if err != nil || p.Text == "" {
				t.Fatalf("part = %+v, %v", p, err)
			}
			break
		}
	})
}

func TestIdle(t *testing.T) {
	server := serve(t, `
[[rule]]
contains = "silent"
hang = true
[[rule]]
text = "so far"
hang = true
`)
	for _, question := range []string{"silent", "says something"} {
		formats(t, func(t *testing.T, id string) {
			s := model.Limit(open(t, id, server.URL), model.LimitOptions{Idle: 50 * time.Millisecond})
			got := collect(t, s, t.Context(), ask(question))
			if e := got.want(t, model.KindIdle); e.Provider != strings.TrimSuffix(id, "/wire") {
				t.Errorf("%s: error = %v, want the provider in it", question, e)
			}
		})
	}
}

func TestCeiling(t *testing.T) {
	server := serve(t, "[[rule]]\ntext = '''"+strings.Repeat("flood ", 10_000)+"'''")
	formats(t, func(t *testing.T, id string) {
		p := providers(server.URL)
		p.MaxBytes = 20_000
		s, _, err := model.Open(t.Context(), id, constructors, p)
		if err != nil {
			t.Fatal(err)
		}
		got := collect(t, s, t.Context(), ask("x"))
		if e := got.want(t, model.KindTooLarge); e.Temporary() {
			t.Error("a flood is worth repeating")
		}
		if len(got.text) == 0 || len(got.text) > 20_000 {
			t.Errorf("%d bytes of text came through", len(got.text))
		}
	})
}

// TestEndlessLine: a line of an event stream that no decoder holds would be as long, and be paid
// for, the next time.
func TestEndlessLine(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		chunk := []byte(strings.Repeat("x", 1<<20))
		_, _ = io.WriteString(w, "data: ")
		for range 33 {
			_, _ = w.Write(chunk)
		}
	}))
	t.Cleanup(server.Close)
	formats(t, func(t *testing.T, id string) {
		p := providers(server.URL)
		p.MaxBytes = 64 << 20
		s, _, err := model.Open(t.Context(), id, constructors, p)
		if err != nil {
			t.Fatal(err)
		}
		got := collect(t, s, t.Context(), ask("x"))
		if e := got.want(t, model.KindTooLarge); e.Temporary() {
			t.Errorf("%v is worth repeating", e)
		}
	})
}

// TestRetry: failures that pass are repeated, over the wire and with the attempt told.
func TestRetry(t *testing.T) {
	server := serve(t, `
[[rule]]
attempt = 1
error = { kind = "rate_limit", retry_after = "20ms" }
[[rule]]
attempt = 2
fault = "hangup"
[[rule]]
attempt = 3
error = { kind = "server" }
[[rule]]
text = "at last"
`)
	formats(t, func(t *testing.T, id string) {
		before := len(server.Requests())
		var told []model.Retrying
		s := model.Retry(open(t, id, server.URL), model.RetryOptions{
			Base:   time.Millisecond,
			Rand:   func() float64 { return 0 },
			Notice: func(_ context.Context, r model.Retrying) { told = append(told, r) },
		})
		got := collect(t, s, t.Context(), ask("x"))
		if got.err != nil || got.text != "at last" {
			t.Fatalf("reply = %q, %v", got.text, got.err)
		}
		if n := len(server.Requests()) - before; n != 4 {
			t.Errorf("%d requests, want 4", n)
		}
		kinds := []model.Kind{}
		for _, r := range told {
			kinds = append(kinds, r.Err.Kind)
		}
		if want := []model.Kind{model.KindRateLimit, model.KindNetwork, model.KindServer}; !slices.Equal(kinds, want) {
			t.Errorf("told of %v, want %v", kinds, want)
		}
		if told[0].Wait != 20*time.Millisecond {
			t.Errorf("wait = %v, want 20ms", told[0].Wait)
		}
	})
}

// TestKeys: a key goes to its own endpoint, in its own header, and a config table for a built-in
// provider does not get the built-in's key.
func TestKeys(t *testing.T) {
	server := serve(t, "[[rule]]\ntext = 'x'")
	env := environ(server.URL)
	p := model.Providers{
		Env: func(name string) string {
			if name == "OWN_KEY" {
				return "own-secret"
			}
			return env(name)
		},
		LLM: map[string]model.Endpoint{
			"own":    {Type: "openai", BaseURL: server.URL, APIKeyEnv: "OWN_KEY"},
			"owna":   {Type: "anthropic", BaseURL: server.URL, APIKeyEnv: "OWN_KEY"},
			"nokey":  {Type: "openai", BaseURL: server.URL},
			"ollama": {BaseURL: server.URL},
		},
	}
	header := func(id string, p model.Providers) http.Header {
		t.Helper()
		s, _, err := model.Open(t.Context(), id, constructors, p)
		if err != nil {
			t.Fatal(err)
		}
		n := len(server.Requests())
		if got := collect(t, s, t.Context(), ask("x")); got.err != nil {
			t.Fatal(got.err)
		}
		return server.Requests()[n].Header
	}
	for _, tt := range []struct{ id, apiKey, authorization string }{
		{"anthropic/wire", anthropicKey, ""},
		{"openai/wire", "", "Bearer " + openaiKey},
		{"ollama/wire", "", ""},
		{"own/wire", "", "Bearer own-secret"},
		{"owna/wire", "own-secret", ""},
		{"nokey/wire", "", ""},
	} {
		h := header(tt.id, p)
		if got := h.Get("X-Api-Key"); got != tt.apiKey {
			t.Errorf("%s: X-Api-Key = %q, want %q", tt.id, got, tt.apiKey)
		}
		if got := h.Get("Authorization"); got != tt.authorization {
			t.Errorf("%s: Authorization = %q, want %q", tt.id, got, tt.authorization)
		}
	}
	p.LLM = map[string]model.Endpoint{"anthropic": {BaseURL: server.URL}, "openai": {BaseURL: server.URL + "/v1"}}
	for _, id := range []string{"anthropic/wire", "openai/wire"} {
		if h := header(id, p); h.Get("X-Api-Key") != "" || h.Get("Authorization") != "" {
			t.Errorf("%s: the built-in key went to an address of the config", id)
		}
	}
}

// TestEnvironment: the providers read nothing from the process's environment.
func TestEnvironment(t *testing.T) {
	for _, name := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"} {
		t.Setenv(name, "from-the-environment")
	}
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
	t.Setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Custom: from-the-environment")
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Custom: from-the-environment")
	server := serve(t, "[[rule]]\ntext = 'x'")
	formats(t, func(t *testing.T, id string) {
		n := len(server.Requests())
		if got := collect(t, open(t, id, server.URL), t.Context(), ask("x")); got.err != nil {
			t.Fatal(got.err)
		}
		for name, values := range server.Requests()[n].Header {
			if slices.ContainsFunc(values, func(v string) bool { return strings.Contains(v, "from-the-environment") }) {
				t.Errorf("%s: %s", name, values)
			}
		}
	})
}

// A server that says by its status what is wrong, and does not end its reply, is believed.
func TestErrorWithoutEnd(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, "who are")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer srv.Close()
	var err error
	for _, err = range open(t, "openai/x", srv.URL)(t.Context(), ask("q")) {
	}
	if e := (*model.Error)(nil); !errors.As(err, &e) || e.Kind != model.KindAuth {
		t.Errorf("error = %v, want %s", err, model.KindAuth)
	}
}
