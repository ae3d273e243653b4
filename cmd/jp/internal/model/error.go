package model

import (
	"fmt"
	"strings"
	"time"

	"jp/cmd/jp/internal/model/reset"
)

// Kind says what went wrong with a request. For each kind there is something else to do.
type Kind string

const (
	KindAuth         Kind = "auth"          // no key, or one that is not accepted
	KindQuota        Kind = "quota"         // the account may not spend more
	KindRateLimit    Kind = "rate_limit"    // too many requests; see RetryAfter
	KindOverloaded   Kind = "overloaded"    // the provider is too busy
	KindServer       Kind = "server"        // the provider failed (5xx)
	KindNetwork      Kind = "network"       // the provider could not be reached
	KindStream       Kind = "stream"        // the reply broke off or could not be read
	KindIdle         Kind = "idle"          // nothing came for too long
	KindBadRequest   Kind = "bad_request"   // the request itself was rejected
	KindTooLarge     Kind = "too_large"     // the request or the reply is too large
	KindContext      Kind = "context"       // the request does not fit into the model's window
	KindUnknownModel Kind = "unknown_model" // no such provider or model
)

// Error is the failure of one request, or of opening a model. Its text never holds a key and is one
// line, safe for a terminal.
type Error struct {
	Provider   string // name in the model id, "" = none was reached
	Kind       Kind
	Status     int           // of HTTP, 0 = there was none
	RetryAfter time.Duration // wait that the provider asked for, or until its limit resets; 0 = it said nothing
	Message    string        // message of ours in lowercase, or the provider's own words
	Hint       string        // see Advice; "" = none
	Final      bool          // whether repeating the same request is pointless
	Model      string        // id of a model that does not exist, if that is the error; "" otherwise
	Err        error         `json:"-"` // cause, may be nil
}

// Error returns "anthropic: rate_limit (429): Number of requests has exceeded ...". A model that is
// not known here has a message that says so by itself.
func (e *Error) Error() string {
	s := string(e.Kind)
	if e.Kind == KindUnknownModel && e.Status == 0 && e.Message != "" {
		if e.Provider == "" {
			return e.Message
		}
		return e.Provider + ": " + e.Message
	}
	if e.Provider != "" {
		s = e.Provider + ": " + s
	}
	if e.Status != 0 {
		s += fmt.Sprintf(" (%d)", e.Status)
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Elsewhere reports whether another model may answer what this one could not: the account of this
// one may not spend more, or it failed in a way that passes. A mistake, such as a key that is not
// accepted, is nothing that another model should hide.
func (e *Error) Elsewhere() bool {
	return e.Kind.limits() || e.Temporary()
}

// limits reports whether the provider takes no requests for now, and may say for how long.
func (k Kind) limits() bool { return k == KindQuota || k == KindRateLimit || k == KindOverloaded }

// Temporary reports whether the same request may succeed later.
func (e *Error) Temporary() bool {
	if e.Final {
		return false
	}
	switch e.Kind {
	case KindRateLimit, KindOverloaded, KindServer, KindNetwork, KindStream, KindIdle:
		return true
	}
	return false
}

// usualLimit is the longest wait for a provider where nobody sets another.
const usualLimit = 2 * time.Minute

// Lasting reports whether a request to the same endpoint is pointless for longer than limit, 0 = 2
// min: the key, the account or the model is wrong, or the provider states a reset after that time.
func (e *Error) Lasting(limit time.Duration) bool {
	if limit <= 0 {
		limit = usualLimit
	}
	switch e.Kind {
	case KindAuth, KindUnknownModel:
		return true
	case KindQuota:
		return e.RetryAfter <= 0 || e.RetryAfter > limit
	case KindRateLimit, KindOverloaded:
		return e.RetryAfter > limit
	}
	return false
}

// passing reports whether the same request may succeed after a wait of at most limit.
func (e *Error) passing(limit time.Duration) bool {
	return (e.Temporary() || e.Kind == KindQuota && e.RetryAfter > 0) && !e.Lasting(limit)
}

// withReset returns the error with a hint where the provider states when its limit resets, which is
// too late.
func (e *Error) withReset(limit time.Duration) *Error {
	if e.RetryAfter <= 0 || e.RetryAfter >= reset.Most || !e.Lasting(limit) || e.Kind == KindAuth || e.Kind == KindUnknownModel {
		return e
	}
	late := *e
	wait := (e.RetryAfter + time.Second - 1).Truncate(time.Second)
	text := wait.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-len("0s")]
		}
	}
	late.Hint = fmt.Sprintf("the limit resets in %s: `--wait-limit %dh` waits for that", text, int64((wait+time.Hour-1)/time.Hour))
	return &late
}

// In returns the error as that of a turn of a conversation, with a hint of what to do about it. again
// is a hint that ends in the command that resumes it, "" where nothing of it stays.
func (e *Error) In(conversation, again string) *Error {
	in := *e
	switch {
	case again == "":
		return e
	case e.Kind == KindContext:
		if in.Hint = "`jp conversation compact " + conversation + "` shortens it"; e.Hint != "" {
			in.Hint += ", or " + e.Hint
		}
	case e.Kind == KindUnknownModel:
		if in.Hint = again + " --model MODEL"; e.Advice() != "" {
			in.Hint = e.Advice() + "; then " + in.Hint
		}
		in.Model = "" // its advice is in the hint
	case e.Hint != "":
		in.Hint = e.Hint + "; then " + again
	case e.Temporary():
		in.Hint = again
	default:
		return e
	}
	return &in
}
