package proc

import (
	"slices"
	"strings"
	"testing"
)

func TestEnviron(t *testing.T) {
	from := []string{
		"PATH=/bin", "HOME=/root", "LC_ALL=C", "LC_=x", "LC=no", "XDG_STATE_HOME=/s", "ANTHROPIC_API_KEY=secret", "LD_PRELOAD=x",
		"JP_PROC=death=3", "JP_STORE=/st", "https_proxy=p", "HTTPS_PROXY=P", "TERM=dumb", "SSL_CERT_FILE=f", "OTEL_X=1",
		"TRACEPARENT=p", "TRACESTATE=s", "TRACE=no",
		"=odd", "novalue", "PATH=/usr/bin", "TZ=\x00", "TMPDIR=", "USER=a=b",
	}
	for _, tt := range []struct {
		name  string
		allow []string
		want  []string
	}{
		{"nothing", nil, []string{}},
		{"agent", AgentEnv(), []string{"PATH=/usr/bin", "HOME=/root", "LC_ALL=C", "LC_=x", "XDG_STATE_HOME=/s", "https_proxy=p", "HTTPS_PROXY=P", "SSL_CERT_FILE=f", "OTEL_X=1", "TRACEPARENT=p", "TRACESTATE=s", "TMPDIR=", "USER=a=b"}},
		{"tool", ToolEnv(), []string{"PATH=/usr/bin", "HOME=/root", "LC_ALL=C", "LC_=x", "TERM=dumb", "TMPDIR=", "USER=a=b"}},
		{"more names", append(ToolEnv(), "ANTHROPIC_API_KEY"), []string{"PATH=/usr/bin", "HOME=/root", "LC_ALL=C", "LC_=x", "ANTHROPIC_API_KEY=secret", "TERM=dumb", "TMPDIR=", "USER=a=b"}},
		{"set", []string{"HOME", "NEW=1", "HOME=/new", "NEW=2", "=x", "Z=\x00", "E="}, []string{"HOME=/new", "NEW=2", "E="}},
		{"prefix", []string{"LC_*"}, []string{"LC_ALL=C", "LC_=x"}},
		{"star inside a name is a name", []string{"L*C"}, []string{}},
		{"set with a star", []string{"A*=1"}, []string{"A*=1"}},
	} {
		if got := Environ(from, tt.allow...); !slices.Equal(got, tt.want) || got == nil {
			t.Errorf("%s: Environ() = %q, want %q", tt.name, got, tt.want)
		}
	}
	everything := Environ(from, "*")
	if len(everything) != 20 || slices.ContainsFunc(everything, func(e string) bool { return strings.Contains(e, "\x00") }) {
		t.Errorf("Environ(*) = %d entries %q, want 20", len(everything), everything)
	}
}

func TestListsAreCopies(t *testing.T) {
	AgentEnv()[0], ToolEnv()[0] = "LD_PRELOAD", "LD_PRELOAD"
	if AgentEnv()[0] != "PATH" || ToolEnv()[0] != "PATH" {
		t.Error("a caller changed the lists for everybody")
	}
}

func FuzzEnviron(f *testing.F) {
	f.Add("PATH=/bin\nHOME=x", "PATH\nLC_*")
	f.Add("A=1\nA=2\n=\nB", "*\nC=3")
	f.Add("LD_PRELOAD=x\nLD=y", "LD\nLD_\nL")
	f.Add("0", "0=\n1\n1=")
	f.Fuzz(func(t *testing.T, from, allow string) {
		entries, names := strings.Split(from, "\n"), strings.Split(allow, "\n")
		got := Environ(entries, names...)
		seen := map[string]bool{}
		for _, e := range got {
			name, _, ok := strings.Cut(e, "=")
			if !ok || name == "" || strings.Contains(e, "\x00") || seen[name] {
				t.Fatalf("Environ(%q, %q) = %q: bad entry %q", entries, names, got, e)
			}
			seen[name] = true
			if slices.Contains(names, e) {
				continue
			}
			let := slices.ContainsFunc(names, func(a string) bool {
				prefix, star := strings.CutSuffix(a, "*")
				return a == name || star && !strings.Contains(a, "=") && strings.HasPrefix(name, prefix)
			})
			if !let || !slices.Contains(entries, e) {
				t.Fatalf("Environ(%q, %q) let %q through", entries, names, e)
			}
		}
		// What is set comes after what is let through: the order may differ.
		again := Environ(got, names...)
		if slices.Sort(got); !slices.Equal(slices.Sorted(slices.Values(again)), got) {
			t.Fatalf("Environ is not stable: %q, then %q", got, again)
		}
	})
}
