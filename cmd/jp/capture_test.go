package main

import (
	"regexp"

	"github.com/rogpeppe/go-internal/testscript"
)

// capture NAME REGEXP: sets the variable NAME to the first match of REGEXP in stdout, or to its
// first group.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: capture NAME REGEXP")
	}
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	m := re.FindStringSubmatch(ts.ReadFile("stdout"))
	if m == nil {
		ts.Fatalf("capture %s: stdout does not match %s", args[0], args[1])
	}
	ts.Setenv(args[0], m[len(m)-1])
}
