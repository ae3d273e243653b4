package otel

import (
	"errors"
	"testing"
)

// A key in the path of a collector is in no message.
func TestLostErrorShowsNoPath(t *testing.T) {
	for address, want := range map[string]string{
		"https://collector.example/v1/traces":            "1 span was not sent to https://collector.example/v1/traces: no",
		"https://collector.example/KEY/v1/traces":        "1 span was not sent to https://collector.example/...: no",
		"https://collector.example/a%2FKEY/v1/traces?x=": "1 span was not sent to https://collector.example/...?x=: no",
	} {
		if got := (&LostError{Spans: 1, URL: address, Err: errors.New("no")}).Error(); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}
