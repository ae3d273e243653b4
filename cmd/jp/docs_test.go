package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocsLinks follows each relative link of the README and the pages, to the heading where it
// names one.
func TestDocsLinks(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	link := regexp.MustCompile(`\]\(([^()\s]+)\)`)
	found := 0
	for _, page := range append(pages, "../../README.md", "../../testdata/script/README.md") {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(data), -1) {
			name, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(name, "://") {
				continue
			}
			found++
			target := page
			if name != "" {
				target = filepath.Join(filepath.Dir(page), name)
			}
			text, err := os.ReadFile(target)
			if err != nil {
				t.Errorf("%s: %s leads nowhere", page, m[1])
			} else if anchor != "" && !headings(string(text))[anchor] {
				t.Errorf("%s: %s: no such heading", page, m[1])
			}
		}
	}
	if found == 0 {
		t.Error("no links")
	}
}

// TestDocsChecks finds each test and each script that the README and the pages name as what checks
// a claim.
func TestDocsChecks(t *testing.T) {
	tests := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(data), -1) {
			tests[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[bool]int{} // by whether it is a script
	for _, page := range append(pages, "../../README.md") {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(data), -1) {
			if found[false]++; !tests[m[1]] {
				t.Errorf("%s: there is no test %s", page, m[1])
			}
		}
		for _, m := range regexp.MustCompile("(?:`(\\w+)` in `testdata/script`|testdata/script/(\\w+)\\.txtar)").FindAllStringSubmatch(string(data), -1) {
			found[true]++
			if _, err := os.Stat(filepath.Join("../../testdata/script", m[1]+m[2]+".txtar")); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
	if found[false] == 0 || found[true] == 0 {
		t.Errorf("tests and scripts named: %v", found)
	}
}

// TestDocsKeys finds each key of the JSON that commands print in the code of a page.
func TestDocsKeys(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	named, word := map[string]bool{}, regexp.MustCompile(`\w+`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range regexp.MustCompile("(?ms)^```.*?^```|^    [^\n]+$|`[^`]+`").FindAllString(string(text), -1) {
			for _, w := range word.FindAllString(code, -1) {
				named[w] = true
			}
		}
	}
	found := 0
	for _, printed := range []string{
		"cmd/jp/internal/cli/*/*.go", "cmd/jp/internal/enabled/*.go", "cmd/jp/internal/lint/*.go", "cmd/jp/internal/review/*.go",
		"cmd/jp/internal/stream/*.go", "cmd/jp/internal/version/*.go", "cmd/jp/internal/servers/shown.go", "cmd/jp/internal/trace/trace.go",
		"cmd/jp/internal/delegate/batch.go", "cmd/jp/internal/subtree/*.go", "cmd/jp/internal/delegate/reduce.go",
		"convstore/body.go", "convstore/event.go", "convstore/archive/exchange.go", "convstore/usage/*.go",
		"profiles/find.go", "profiles/layers.go", "profiles/settings.go", "profiles/fault/*.go",
	} {
		files, err := filepath.Glob("../../" + printed)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", printed, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, m := range regexp.MustCompile(`json:"(\w+)`).FindAllStringSubmatch(string(text), -1) {
				if found++; !named[m[1]] {
					t.Errorf("%s: no page names the key %s", file, m[1])
				}
			}
		}
	}
	if found == 0 {
		t.Error("no keys")
	}
}

// TestDesignNamesPackages finds each folder with Go code in the map of the source tree, and no
// other.
func TestDesignNamesPackages(t *testing.T) {
	page, err := os.ReadFile("../../docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|[^|]+\\|[^|]*\\|$").FindAllStringSubmatch(string(page), -1) {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			named[m[1]] = true
		}
	}
	found := 0
	for _, root := range []string{"../../cmd/jp/internal", "../../convstore", "../../profiles", "../../tools"} {
		if err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
			if err != nil || !e.IsDir() {
				return err
			}
			if files, err := filepath.Glob(filepath.Join(path, "*.go")); len(files) == 0 {
				return err
			}
			name := strings.TrimPrefix(strings.TrimPrefix(path, "../../"), "cmd/jp/internal/")
			if found++; !named[name] {
				t.Errorf("docs/design.md does not name %s", name)
			}
			delete(named, name)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for name := range named {
		t.Errorf("docs/design.md names %s, which holds no Go code", name)
	}
	if found == 0 {
		t.Error("no packages")
	}
}

// headings returns the anchors of a page's headings, as GitHub makes them.
func headings(page string) map[string]bool {
	anchors := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ +(.+?) *$`).FindAllStringSubmatch(page, -1) {
		kept := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(m[1]), "")
		anchors[strings.ReplaceAll(kept, " ", "-")] = true
	}
	return anchors
}

// TestChangelog finds what merging by union leaves behind: lines that stand twice, and lines that
// go on with no entry.
func TestChangelog(t *testing.T) {
	data, err := os.ReadFile("../../docs/changelog.md")
	if err != nil {
		t.Fatal(err)
	}
	first := map[string]int{}
	before := ""
	for i, line := range strings.Split(string(data), "\n") {
		if line != "" && first[line] != 0 {
			t.Errorf("line %d stands in line %d too: %s", i+1, first[line], line)
		}
		if strings.HasPrefix(line, "  ") && before == "" {
			t.Errorf("line %d goes on with nothing: %s", i+1, line)
		}
		first[line], before = i+1, line
	}
}

// TestCIRunTakesNoArguments: who asks .ci/run for help does not start all tests.
func TestCIRunTakesNoArguments(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "make"), []byte("#!/bin/sh\necho made\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (stdout, stderr string, status int) {
		var out, errs strings.Builder
		c := exec.Command(bash, append([]string{"../../.ci/run"}, args...)...)
		c.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
		c.Stdout, c.Stderr = &out, &errs
		if err := c.Run(); err != nil && c.ProcessState == nil {
			t.Fatal(err)
		}
		return out.String(), errs.String(), c.ProcessState.ExitCode()
	}
	if out, errs, status := run("--help"); out != "" || errs != "run: takes no arguments, and nothing was run: --help\n" || status != 2 {
		t.Errorf(".ci/run --help = %q, %q, status %d, want only a refusal on stderr and status 2", out, errs, status)
	}
	if out, errs, status := run(); out != "made\nmade\nmade\n" || errs != "" || status != 0 {
		t.Errorf(".ci/run = %q, %q, status %d, want three runs of make", out, errs, status)
	}
}
