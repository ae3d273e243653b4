package model

import (
	"fmt"
	"time"
)

// Kind says what went wrong with a request, in terms of what to do about it.
type Kind string

const (
	KindAuth         Kind = "auth"          // no key, or one that is not accepted
	KindQuota        Kind = "quota"         // the account may not spend more
	KindRateLimit    Kind = "rate_limit"    // too many requests; see RetryAfter
	KindOverloaded   Kind = "overloaded"    // the provider is too busy
	KindServer       Kind = "server"        // the provider failed (5xx)
	KindNetwork      Kind = "network"       // it could not be reached
	KindStream       Kind = "stream"        // the reply broke off or made no sense
	KindIdle         Kind = "idle"          // nothing came for too long
	KindBadRequest   Kind = "bad_request"   // the request itself was refused
	KindTooLarge     Kind = "too_large"     // the request or the reply is too large
	KindContext      Kind = "context"       // the request does not fit into the model's window
	KindUnknownModel Kind = "unknown_model" // no such provider or model
)

// Error is the failure of one request, or of opening a model. Its text never holds a key and
// is one line, safe for a terminal.
type Error struct {
	Provider   string // name in the model id, "" = none was reached
	Kind       Kind
	Status     int           // of HTTP, 0 = there was none
	RetryAfter time.Duration // what the provider asked for, 0 = nothing
	Message    string        // lowercase where it is ours, the provider's own words otherwise
	Hint       string        // what to try, "" = nothing in particular
	Final      bool          // repeating the same request is pointless
	Model      string        // id, where the error is that there is no such model; "" otherwise
	Err        error         // cause, may be nil
}

// Error returns "anthropic: rate_limit (429): Number of requests has exceeded ...".
func (e *Error) Error() string {
	s := string(e.Kind)
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
