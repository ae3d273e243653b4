package command

import "testing"

func TestRoff(t *testing.T) {
	for in, want := range map[string]string{
		".so /etc/passwd": `\&.so /etc/passwd`,
		"'br":             `\(aqbr`,
		`a\fBb`:           `a\efBb`,
		"--x `y` ~ ^":     `\-\-x \(gay\(ga \(ti \(ha`,
		"plain":           "plain",
	} {
		if got := roff(in); got != want {
			t.Errorf("roff(%q) = %q, want %q", in, got, want)
		}
	}
}
