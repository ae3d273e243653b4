package reset

import (
	"net/http"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After", "2", 2 * time.Second},
		{"Retry-After", "1.5", 1500 * time.Millisecond},
		{"Retry-After", " 3 ", 3 * time.Second},
		{"Retry-After", "Sat, 21 Nov 2026 12:01:00 GMT", time.Minute},
		{"Retry-After", "Sat, 21 Nov 2026 11:00:00 GMT", 0},
		{"Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT", Most},
		{"Retry-After-Ms", "250", 250 * time.Millisecond},
		{"Retry-After", "-1", 0},
		{"Retry-After", "NaN", 0},
		{"Retry-After", "Inf", Most},
		{"Retry-After", "1e300", Most},
		{"Retry-After", "soon", 0},
		{"Retry-After", "", 0},
	} {
		h := http.Header{}
		h.Set(tt.name, tt.value)
		if got := retryAfter(h, now); got != tt.want {
			t.Errorf("%s: %q = %v, want %v", tt.name, tt.value, got, tt.want)
		}
	}
}

// TestRetryAfterTwice: a header that says nothing does not hide the other one.
func TestRetryAfterTwice(t *testing.T) {
	for ms, want := range map[string]time.Duration{"0": 7 * time.Second, "-1": 7 * time.Second, "20": 20 * time.Millisecond} {
		h := http.Header{"Retry-After-Ms": {ms}, "Retry-After": {"7"}}
		if got := retryAfter(h, time.Now()); got != want {
			t.Errorf("Retry-After-Ms: %s = %v, want %v", ms, got, want)
		}
	}
}

// TestResets: what vendors state with an error, in headers and in words.
func TestResets(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name    string
		header  map[string]string
		message string
		want    time.Duration
	}{
		{"OpenAI, headers", map[string]string{"X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "6m0s", "X-Ratelimit-Remaining-Tokens": "5", "X-Ratelimit-Reset-Tokens": "9h"}, "", 6 * time.Minute},
		{"OpenAI, words", nil, "Rate limit reached for gpt-5.4 in organization org-X on tokens per min (TPM): Limit 500000, Used 442231. Please try again in 23.03s. Visit https://x", 23030 * time.Millisecond},
		{"OpenAI, long", nil, "Please try again in 1h12m3.5s.", time.Hour + 12*time.Minute + 3500*time.Millisecond},
		{"OpenAI, short", nil, "Please try again in 20ms.", 20 * time.Millisecond},
		{"Azure", nil, "Please retry after 3 seconds. Please go here", 3 * time.Second},
		{"Gemini", nil, "Quota exceeded for metric: x, limit: 0\nPlease retry in 11.665902715s.", 11665902715},
		{"Anthropic, words", nil, "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.", 9*24*time.Hour + 12*time.Hour},
		{"Anthropic, over", nil, "You will regain access on 2026-11-01 at 00:00 UTC.", 0},
		{"Anthropic, year 9999", nil, "You will regain access on 9999-12-31 at 00:00 UTC.", Most},
		{"Anthropic, no date", nil, "You will regain access on 2026-99-99 at 99:00 UTC.", 0},
		{"Anthropic, headers", map[string]string{"Anthropic-Ratelimit-Tokens-Remaining": "0", "Anthropic-Ratelimit-Tokens-Reset": "2026-11-21T12:00:30Z"}, "", 30 * time.Second},
		{"OpenRouter", map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "1795262700000"}, "", 5 * time.Minute},
		{"the first to say it", map[string]string{"Retry-After": "7"}, "Please try again in 1h.", 7 * time.Second},
		{"nothing", map[string]string{"X-Ratelimit-Remaining": "3", "X-Ratelimit-Reset": "1795262700000"}, "try again in a while", 0},
	} {
		h := http.Header{}
		for k, v := range tt.header {
			h.Set(k, v)
		}
		if got := In(h, tt.message, true, now); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	if got := In(nil, "Please try again in 1h.", false, now); got != 0 {
		t.Errorf("a bad request states %v", got)
	}
}
