package model

import (
	"errors"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"jp/cmd/jp/internal/model/reset"
)

func TestParseErrorBody(t *testing.T) {
	for body, want := range map[string]problem{
		`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`:                      {"Overloaded", "overloaded_error", ""},
		`{"error":{"message":"no","type":"invalid_request_error","code":"x"}}`:                             {"no", "invalid_request_error", "x"},
		`{"error":{"message":"no","code":502}}`:                                                            {"no", "", "502"},
		`{"error":"model 'x' not found"}`:                                                                  {"model 'x' not found", "", ""},
		`{"message":"no","code":"x"}`:                                                                      {"no", "", "x"},
		`{"detail":"Not Found"}`:                                                                           {"Not Found", "", ""},
		`{"detail":[{"msg":"x"}]}`:                                                                         {"x", "", ""},
		`{"detail":[{"loc":["body","tools",0,"type"],"msg":"no"},{"msg":"y"}]}`:                            {"body.tools.0.type: no", "", ""},
		`{"object":"error","message":{"detail":[{"loc":["body","n"],"msg":"no"}]},"type":"t","code":null}`: {"body.n: no", "t", ""},
		`[{"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT"}}]`:                              {"no", "", "400"},
		`{"error":true,"message":"no"}`:                                                                    {"no", "", ""},
		`{"error":404,"message":"no"}`:                                                                     {"no", "", ""},
		`[[[[[[[[["no"]]]]]]]]]`:                                                                           {},
		`{"error":{"message":{"a":1}}}`:                                                                    {},
		`{"error":null}`:                                                                                   {},
		` upstream connect error `:                                                                         {"upstream connect error", "", ""},
		`<html>502</html>`:                                                                                 {},
		`{"error":`:                                                                                        {},
		`[]`:                                                                                               {},
		``:                                                                                                 {},
		"\xff\xfe":                                                                                         {},
	} {
		if got := parseErrorBody([]byte(body)); got != want {
			t.Errorf("parseErrorBody(%q) = %+v, want %+v", body, got, want)
		}
	}
}

// TestErrorBodyMemory: what nobody reads of an error takes no memory.
func TestErrorBodyMemory(t *testing.T) {
	crowd := "[" + strings.Repeat(`{"":0},`, 1<<16) + "0]"
	for _, body := range []string{crowd, `{"error":{"message":` + crowd + `}}`, `{"detail":` + crowd + `,"code":` + crowd + `}`, `{"loc":` + crowd + `}`} {
		least := math.Inf(1) // what other tests have left running is counted too
		for range 10 {
			least = min(least, testing.AllocsPerRun(1, func() { parseErrorBody([]byte(body)) }))
		}
		if least > 100 {
			t.Errorf("%.30s ...: %v allocations", body, least)
		}
	}
}

func TestStatusError(t *testing.T) {
	tests := []struct {
		status    int
		header    http.Header
		body      string
		kind      Kind
		message   string
		temporary bool
	}{
		{401, nil, ``, KindAuth, "unauthorized", false},
		{403, nil, `{"error":{"type":"permission_error","message":"no"}}`, KindAuth, "no", false},
		{403, nil, `{"error":{"code":403,"message":"x requires moderation. Your input was flagged for \"violence\"."}}`, KindBadRequest, `x requires moderation. Your input was flagged for "violence".`, false},
		{404, nil, `{"error":{"type":"not_found_error","message":"model: x"}}`, KindUnknownModel, "model: x", false},
		{404, nil, `{"error":{"code":"model_not_found","message":"x"}}`, KindUnknownModel, "x", false},
		{404, nil, `404 page not found`, KindBadRequest, "404 page not found", false},
		{429, nil, `{"error":{"code":"insufficient_quota","type":"insufficient_quota","message":"pay"}}`, KindQuota, "pay", false},
		{429, nil, `{"error":{"code":"rate_limit_exceeded","message":"slow"}}`, KindRateLimit, "slow", true},
		{429, http.Header{"X-Should-Retry": {"false"}}, `{}`, KindRateLimit, "too many requests", false},
		{400, nil, `{"error":{"type":"invalid_request_error","message":"no"}}`, KindBadRequest, "no", false},
		{400, nil, `{"error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, KindContext, "prompt is too long: 210000 tokens > 200000 maximum", false},
		{400, nil, `{"error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"no"}}`, KindContext, "no", false},
		{400, nil, `{"message":"This model's maximum context length is 8192 tokens."}`, KindContext, "This model's maximum context length is 8192 tokens.", false},
		{400, nil, `{"error":{"type":"exceed_context_size_error","code":400,"message":"x"}}`, KindContext, "x", false},
		{400, nil, `{"error":{"code":400,"message":"The input token count (9) exceeds the maximum number of tokens allowed (8).","status":"INVALID_ARGUMENT"}}`, KindContext, "The input token count (9) exceeds the maximum number of tokens allowed (8).", false},
		{500, nil, `{"error":"the request exceeds the available context size"}`, KindContext, "the request exceeds the available context size", false},
		{429, nil, `{"message":"Please reduce the length of the messages."}`, KindRateLimit, "Please reduce the length of the messages.", true},
		{400, nil, `[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]`, KindAuth, "API key not valid. Please pass a valid API key.", false},
		{400, nil, `[{"error":{"code":400,"message":"API key expired. Please renew the API key.","status":"INVALID_ARGUMENT"}}]`, KindAuth, "API key expired. Please renew the API key.", false},
		{404, nil, `[{"error":{"code":404,"message":"models/x is not found for API version v1main","status":"NOT_FOUND"}}]`, KindUnknownModel, "models/x is not found for API version v1main", false},
		{404, nil, `{"error":{"message":"This model models/x is no longer available to new users."}}`, KindUnknownModel, "This model models/x is no longer available to new users.", false},
		{404, nil, `{"message":"No allowed providers are available for the selected model."}`, KindBadRequest, "No allowed providers are available for the selected model.", false},
		{408, nil, ``, KindServer, "request timeout", true},
		{500, nil, `{"error":{"type":"api_error","message":"no"}}`, KindServer, "no", true},
		{502, nil, `<html>`, KindServer, "bad gateway", true},
		{529, nil, ``, KindOverloaded, "", true},
		{301, nil, ``, KindBadRequest, "moved permanently", false},
	}
	for _, tt := range tests {
		e := Config{Name: "p"}.statusError(tt.status, tt.header, []byte(tt.body))
		if e.Kind != tt.kind || e.Message != tt.message || e.Temporary() != tt.temporary || e.Status != tt.status {
			t.Errorf("statusError(%d, %s) = %v (temporary %t), want %s: %s (%t)", tt.status, tt.body, e, e.Temporary(), tt.kind, tt.message, tt.temporary)
		}
	}
}

// TestListedError: Gemini's errors are entries of a list, and say when to come back.
func TestListedError(t *testing.T) {
	const body = `[{"error":{"code":429,"message":"You exceeded your current quota. Please retry in 3600.5s.","status":"RESOURCE_EXHAUSTED"}}]`
	if e := (Config{}).statusError(429, nil, []byte(body)); e.RetryAfter != 3600500*time.Millisecond {
		t.Errorf("%v: retry after %v", e, e.RetryAfter)
	}
}

func TestStreamError(t *testing.T) {
	for body, want := range map[string]Kind{
		`{"type":"error","error":{"type":"overloaded_error","message":"x"}}`:      KindOverloaded,
		`{"type":"error","error":{"type":"invalid_request_error","message":"x"}}`: KindBadRequest,
		`{"error":{"message":"x","code":429}}`:                                    KindRateLimit,
		`{"error":{"message":"x","code":502}}`:                                    KindServer,
		`{"error":{"message":"x"}}`:                                               KindServer,
		`{"error":{"message":"The number of tokens to keep from the initial prompt is greater than the context length."}}`: KindContext,
		`nonsense`: KindServer,
	} {
		if e := (Config{}).StreamError([]byte(body)); e.Kind != want {
			t.Errorf("StreamError(%s) = %v, want kind %s", body, e, want)
		}
	}
}

func TestClean(t *testing.T) {
	for _, tt := range []struct{ in, key, want string }{
		{"plain", "", "plain"},
		{" a\n\tb\r\nc ", "", "a b c"},
		{"\x1b[31mred\x1b[0m", "", "[31mred[0m"},
		{"a\u202eb\u200b\U000e0041c", "", "abc"},
		{"bad \xff\xfe bytes", "", "bad bytes"},
		{"key sk-12345 and sk-12345", "sk-12345", "key [key] and [key]"},
		{"sk-12\x1b345", "sk-12345", "[key]"},
		{"a block of x", "x", "a block of x"},
		{strings.Repeat("ü", 400), "", strings.Repeat("ü", 300) + " ..."},
	} {
		if got := clean(tt.in, tt.key); got != tt.want {
			t.Errorf("clean(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func FuzzErrorBody(f *testing.F) {
	for _, s := range []string{`{"error":{"message":"x","code":1}}`, `{"error":"sk-12345"}`, "\x1b]0;x\x07", `{"message":"\u202e"}`, "<html>"} {
		f.Add(429, []byte(s), "2")
	}
	f.Fuzz(func(t *testing.T, status int, body []byte, after string) {
		c := Config{Name: "p", Key: "sk-12345"}
		h := http.Header{}
		h["Retry-After"] = []string{after}
		for _, e := range []*Error{c.statusError(status, h, body), c.StreamError(body)} {
			s := e.Error()
			if strings.Contains(s, "sk-12345") || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) || !utf8.ValidString(s) || len(s) > maxMessage+100 {
				t.Errorf("%q", s)
			}
			if e.RetryAfter < 0 || e.RetryAfter > reset.Most {
				t.Errorf("retry after %v", e.RetryAfter)
			}
		}
	})
}

// TestNoSuchHost: without a network, or with a wrong address, the hint says what to look at.
func TestNoSuchHost(t *testing.T) {
	err := Config{Name: "work", BaseURL: "https://llm.example/"}.unreachable(&net.DNSError{Err: "no such host", Name: "llm.example", IsNotFound: true})
	if e, ok := errors.AsType[*Error](err); !ok || !e.Final || e.Hint != "is this machine connected, and https://llm.example/ the right address?" {
		t.Errorf("error %v, hint %q", err, e.Hint)
	}
}
