package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// commands: gives every jp command in the blocks of the README and the guide pages --help as
// well, which fails where the command or one of its flags does not exist. docs/cli.md is generated.
func commands(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: commands")
	}
	pages, err := filepath.Glob(filepath.Join(ts.Getenv("DOCS"), "*.md"))
	ts.Check(err)
	found := 0
	for _, page := range append(pages, filepath.Join(ts.Getenv("DOCS"), "../README.md")) {
		if filepath.Base(page) == "cli.md" {
			continue
		}
		data, err := os.ReadFile(page)
		ts.Check(err)
		fenced := false
		for i, line := range strings.Split(string(data), "\n") {
			if strings.HasPrefix(line, "```") {
				fenced = !fenced
			}
			text := strings.TrimPrefix(strings.TrimSpace(line), "$ ")
			if !fenced && !strings.HasPrefix(line, "    ") || !strings.HasPrefix(text, "jp ") {
				continue
			}
			for _, words := range calls(text) {
				found++
				if err := ts.Exec("jp", append(words[1:], "--help")...); err != nil {
					ts.Fatalf("%s:%d: %s: %v", filepath.Base(page), i+1, strings.Join(words, " "), err)
				}
			}
		}
	}
	if found == 0 {
		ts.Fatalf("no commands")
	}
}

// calls returns the words of each call of jp in a line of shell, up to its --. A line that is none
// of shell has none.
func calls(line string) [][]string {
	file, err := syntax.NewParser().Parse(strings.NewReader(strings.ReplaceAll(line, "...", "")), "")
	if err != nil {
		return nil
	}
	var found [][]string
	syntax.Walk(file, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok {
			words, err := expand.Fields(&expand.Config{Env: expand.FuncEnviron(func(string) string { return "x" })}, call.Args...)
			if err == nil && len(words) > 0 && words[0] == "jp" {
				if i := slices.Index(words, "--"); i > 0 {
					words = words[:i]
				}
				found = append(found, words)
			}
		}
		return true
	})
	return found
}
