// Package reset reads after how long a provider takes requests again, as it says so with an error: in
// headers and in words. Each vendor has its own.
package reset

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

// Most bounds what a provider states.
const Most = 366 * 24 * time.Hour

// In returns after how long a request may be made again: by Retry-After, and where the error is
// about a limit, by the headers of one that has nothing left, or by the message. 0 means that the
// provider says nothing, or nothing that makes sense, such as a time that is over.
func In(h http.Header, message string, limit bool, now time.Time) time.Duration {
	d := retryAfter(h, now)
	if d > 0 || !limit {
		return d
	}
	return cmp.Or(exhausted(h, now), stated(message, now))
}

// bounded brings a wait into the bounds of what makes sense.
func bounded(d time.Duration) time.Duration { return min(max(d, 0), Most) }

// number reads a number of units; false = it is none, or negative.
func number(s string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(n) || n < 0 {
		return 0, false
	}
	return time.Duration(math.Min(n*float64(unit), float64(Most))), true
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
		return bounded(t.Sub(now))
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
				latest = max(latest, bounded(t.Sub(now)))
			}
		}
		if h.Get("X-Ratelimit-Remaining-"+of) == "0" {
			if d, err := time.ParseDuration(h.Get("X-Ratelimit-Reset-" + of)); err == nil {
				latest = max(latest, bounded(d))
			}
		}
	}
	if h.Get("X-Ratelimit-Remaining") == "0" {
		if n, err := strconv.ParseInt(h.Get("X-Ratelimit-Reset"), 10, 64); err == nil && n > 1e12 {
			latest = max(latest, bounded(time.UnixMilli(n).Sub(now)))
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
			return bounded(d)
		}
	}
	if m := afterSeconds().FindStringSubmatch(message); m != nil {
		d, _ := number(m[1], time.Second)
		return d
	}
	if m := accessOn().FindStringSubmatch(message); m != nil {
		if t, err := time.Parse("2006-01-02 15:04", m[1]+" "+m[2]); err == nil {
			return bounded(t.Sub(now))
		}
	}
	return 0
}
