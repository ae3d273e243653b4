package otel

import (
	"encoding/binary"
	"strings"
	"testing"
)

const (
	aTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	aSpan  = "00f067aa0ba902b7"
)

func TestParseLink(t *testing.T) {
	const good = "00-" + aTrace + "-" + aSpan + "-01"
	for _, tt := range []struct {
		parent, state string
		want          string // as TRACEPARENT, "" = none
		wantState     string
	}{
		{good, "", good, ""},
		{good, "vendor=1,other=2", good, "vendor=1,other=2"},
		{"00-" + aTrace + "-" + aSpan + "-00", "", "00-" + aTrace + "-" + aSpan + "-00", ""},
		{"00-" + aTrace + "-" + aSpan + "-03", "", good, ""},                // the other flags are for us alone
		{"cc-" + aTrace + "-" + aSpan + "-01-what comes", "", good, ""},     // a later version
		{good, "vendor=\x1b[31m", good, ""},                                 // no text of tracestate
		{good, strings.Repeat("v", 513), good, ""},                          //
		{"", "vendor=1", "", ""},                                            //
		{good + "-", "", "", ""},                                            // version 00 ends here
		{"cc-" + aTrace + "-" + aSpan + "-01.what comes", "", "", ""},       //
		{"ff-" + aTrace + "-" + aSpan + "-01", "", "", ""},                  // no version
		{strings.ToUpper(good), "", "", ""},                                 //
		{"00-" + strings.Repeat("0", 32) + "-" + aSpan + "-01", "", "", ""}, //
		{"00-" + aTrace + "-" + strings.Repeat("0", 16) + "-01", "", "", ""},
		{"00-" + aTrace[1:] + "g-" + aSpan + "-01", "", "", ""},
		{"00_" + aTrace + "-" + aSpan + "-01", "", "", ""},
		{good[:54], "", "", ""},
	} {
		l, ok := parseLink(tt.parent, tt.state)
		got := ""
		if ok {
			got = l.String()
		}
		if got != tt.want || l.state != tt.wantState {
			t.Errorf("parseLink(%q, %q) = %q, state %q, want %q, state %q", tt.parent, tt.state, got, l.state, tt.want, tt.wantState)
		}
	}
}

func FuzzParseLink(f *testing.F) {
	f.Add("00-"+aTrace+"-"+aSpan+"-01", "a=b")
	f.Add("cc-"+aTrace+"-"+aSpan+"-01-x", "")
	f.Fuzz(func(t *testing.T, parent, state string) {
		l, ok := parseLink(parent, state)
		if !ok {
			if l != (link{}) {
				t.Errorf("parseLink(%q, %q) refuses and returns %+v", parent, state, l)
			}
			return
		}
		again, ok := parseLink(l.String(), l.state)
		if !ok || again != l {
			t.Errorf("parseLink(%q, %q) = %+v, which reads again as %+v, %v", parent, state, l, again, ok)
		}
	})
}

func TestSampler(t *testing.T) {
	low, high := traceID{}, traceID{} // by their last eight bytes
	binary.BigEndian.PutUint64(low[8:], 1<<60)
	binary.BigEndian.PutUint64(high[8:], 1<<63)
	yes, no := link{sampled: true}, link{}
	for _, tt := range []struct {
		sampler, arg       string
		top, topHigh       bool // without a caller
		below, belowUnused bool // of one that is recorded, of one that is not
	}{
		{"", "", true, true, true, false},
		{"always_on", "", true, true, true, true},
		{"always_off", "", false, false, false, false},
		{"traceidratio", "", true, true, true, true},
		{"traceidratio", "1", true, true, true, true},
		{"traceidratio", "0.25", true, false, true, true},
		{"traceidratio", "0", false, false, false, false},
		{"traceidratio", "2", true, true, true, true}, // told, and 1
		{"parentbased_always_on", "", true, true, true, false},
		{"parentbased_always_off", "", false, false, true, false},
		{"parentbased_traceidratio", "0.25", true, false, true, false},
		{"jaeger_remote", "", true, true, true, false}, // told, and the default
	} {
		r := reader{env: environ("OTEL_TRACES_SAMPLER="+tt.sampler, "OTEL_TRACES_SAMPLER_ARG="+tt.arg)}
		s := r.sampler()
		got := []bool{s(link{}, false, low), s(link{}, false, high), s(yes, true, low), s(no, true, low)}
		want := []bool{tt.top, tt.topHigh, tt.below, tt.belowUnused}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("sampler %q %q: %v, want %v", tt.sampler, tt.arg, got, want)
				break
			}
		}
	}
}

// environ is an environment.
func environ(entries ...string) func(string) string {
	return func(name string) string {
		for _, e := range entries {
			if k, v, _ := strings.Cut(e, "="); k == name {
				return v
			}
		}
		return ""
	}
}
