package model

import (
	"cmp"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// mostReset bounds what a provider states.
const mostReset = 366 * 24 * time.Hour

// resetOf returns after how long a request may be made again, as a provider states it with an
// error: in Retry-After, in the headers of a limit that has nothing left, or in words. 0 means that
// it says nothing, or nothing that makes sense, such as a time that is over.
func resetOf(kind Kind, h http.Header, message string, now time.Time) time.Duration {
	if d := retryAfter(h, now); d > 0 {
		return d
	}
	switch kind {
	case KindRateLimit, KindQuota, KindOverloaded:
		return cmp.Or(exhausted(h, now), stated(message, now))
	}
	return 0
}

// reset brings a wait into the bounds of what makes sense.
func reset(d time.Duration) time.Duration { return min(max(d, 0), mostReset) }

// number reads a number of units; false = it is none, or negative.
func number(s string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(n) || n < 0 {
		return 0, false
	}
	return time.Duration(math.Min(n*float64(unit), float64(mostReset))), true
}

// retryAfter reads Retry-After-Ms and Retry-After, the latter as seconds or as a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if d, ok := number(h.Get("Retry-After-Ms"), time.Millisecond); ok && d > 0 {
		return d
	}
	s := h.Get("Retry-After")
	if d, ok := number(s, time.Second); ok {
		return d
	}
	if t, err := http.ParseTime(s); err == nil {
		return reset(t.Sub(now))
	}
	return 0
}

// exhausted returns the latest reset of the limits that have nothing left: those of
// Anthropic, whose times are dates, those of OpenAI, which are durations such as 6m0s, and that of
// OpenRouter, in milliseconds since 1970.
func exhausted(h http.Header, now time.Time) (latest time.Duration) {
	for _, of := range []string{"requests", "tokens", "input-tokens", "output-tokens"} {
		if h.Get("Anthropic-Ratelimit-"+of+"-Remaining") == "0" {
			if t, err := time.Parse(time.RFC3339, h.Get("Anthropic-Ratelimit-"+of+"-Reset")); err == nil {
				latest = max(latest, reset(t.Sub(now)))
			}
		}
		if h.Get("X-Ratelimit-Remaining-"+of) == "0" {
			if d, err := time.ParseDuration(h.Get("X-Ratelimit-Reset-" + of)); err == nil {
				latest = max(latest, reset(d))
			}
		}
	}
	if h.Get("X-Ratelimit-Remaining") == "0" {
		if n, err := strconv.ParseInt(h.Get("X-Ratelimit-Reset"), 10, 64); err == nil && n > 1e12 {
			latest = max(latest, reset(time.UnixMilli(n).Sub(now)))
		}
	}
	return latest
}

var (
	// OpenAI: "Please try again in 6m0s."; Gemini: "Please retry in 11.66s."
	againIn = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)\b(?:try again|retry) in ((?:[0-9]+(?:\.[0-9]+)?(?:h|ms|m|s))+)`)
	})
	// Azure: "Please retry after 3 seconds."
	afterSeconds = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)\b(?:try again|retry) (?:in|after) ([0-9]+(?:\.[0-9]+)?) seconds?\b`)
	})
	// Anthropic: "You will regain access on 2026-04-01 at 00:00 UTC."
	accessOn = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\bregain access on ([0-9]{4}-[0-9]{2}-[0-9]{2}) at ([0-9]{2}:[0-9]{2}) UTC\b`)
	})
)

// stated returns the reset that a message states.
func stated(message string, now time.Time) time.Duration {
	if m := againIn().FindStringSubmatch(message); m != nil {
		if d, err := time.ParseDuration(m[1]); err == nil {
			return reset(d)
		}
	}
	if m := afterSeconds().FindStringSubmatch(message); m != nil {
		d, _ := number(m[1], time.Second)
		return d
	}
	if m := accessOn().FindStringSubmatch(message); m != nil {
		if t, err := time.Parse("2006-01-02 15:04", m[1]+" "+m[2]); err == nil {
			return reset(t.Sub(now))
		}
	}
	return 0
}
