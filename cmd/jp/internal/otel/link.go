package otel

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

type (
	traceID [16]byte
	spanID  [8]byte
)

// link is a span as other processes know it, in the words of W3C Trace Context.
type link struct {
	trace   traceID
	span    spanID
	sampled bool
	state   string // tracestate, handed on as it came
}

func newSpanID() (id spanID) {
	_, _ = rand.Read(id[:]) // it never fails
	return id
}

// String is the value of TRACEPARENT.
func (l link) String() string {
	flags := "-00"
	if l.sampled {
		flags = "-01"
	}
	return "00-" + hex.EncodeToString(l.trace[:]) + "-" + hex.EncodeToString(l.span[:]) + flags
}

// parseLink reads TRACEPARENT and TRACESTATE. What breaks the form of
// https://www.w3.org/TR/trace-context/ is as if it were not there.
func parseLink(parent, state string) (l link, ok bool) {
	if len(parent) < 55 || parent[2] != '-' || parent[35] != '-' || parent[52] != '-' || parent[:2] == "ff" {
		return link{}, false
	}
	// A later version may have more fields after another dash.
	if len(parent) > 55 && (parent[:2] == "00" || parent[55] != '-') {
		return link{}, false
	}
	var version, flags [1]byte
	if !unhex(version[:], parent[:2]) || !unhex(l.trace[:], parent[3:35]) ||
		!unhex(l.span[:], parent[36:52]) || !unhex(flags[:], parent[53:55]) {
		return link{}, false
	}
	if l.trace == (traceID{}) || l.span == (spanID{}) {
		return link{}, false
	}
	l.sampled = flags[0]&1 != 0
	if len(state) <= 512 && !strings.ContainsFunc(state, func(r rune) bool { return (r < ' ' || r > '~') && r != '\t' }) {
		l.state = state
	}
	return l, true
}

// unhex decodes lower-case digits.
func unhex(to []byte, from string) bool {
	if strings.ToLower(from) != from {
		return false
	}
	n, err := hex.Decode(to, []byte(from))
	return err == nil && n == len(to)
}
