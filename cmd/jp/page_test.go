package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// example is a block of a page that is run: its sh text and, where a text block follows it,
// what that prints.
type example struct {
	line   int // of its fence, 1-based
	script string
	want   string
	checks bool // a text block follows
}

// examples returns the ```sh blocks of a Markdown page. A ```text block is the output of the sh
// block that it follows with nothing but blank lines between.
func examples(page string) []example {
	var found []example
	var lang string
	var body strings.Builder
	start, open, follows := 0, false, false
	for i, line := range strings.Split(page, "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case open && isFence:
			open = false
			switch {
			case lang == "sh":
				found = append(found, example{line: start, script: body.String()})
			case lang == "text" && follows:
				found[len(found)-1].want, found[len(found)-1].checks = body.String(), true
			}
			follows = lang == "sh"
		case isFence:
			open, lang, start = true, fence, i+1
			body.Reset()
		case open:
			body.WriteString(line + "\n")
		case strings.TrimSpace(line) != "":
			follows = false
		}
	}
	return found
}

// page NAME: runs each sh block of docs/NAME in the current folder, in order, each in a shell of
// its own that ends at the first failure. Where a text block follows, stdout must be that, but for
// ids of conversations.
func page(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: page NAME")
	}
	data, err := os.ReadFile(filepath.Join(ts.Getenv("DOCS"), args[0]))
	ts.Check(err)
	found := examples(string(data))
	if len(found) == 0 {
		ts.Fatalf("%s: no examples", args[0])
	}
	ids := regexp.MustCompile(`\bjp-c[0-9]+`)
	for _, e := range found {
		if err := ts.Exec("sh", "-euc", e.script); err != nil {
			ts.Fatalf("%s:%d: %v", args[0], e.line, err)
		}
		got := ids.ReplaceAllString(ts.ReadFile("stdout"), "jp-cID")
		if want := ids.ReplaceAllString(e.want, "jp-cID"); e.checks && got != want {
			ts.Fatalf("%s:%d: the example prints\n%s\nthe page says\n%s", args[0], e.line, got, want)
		}
	}
}
