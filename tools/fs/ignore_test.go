package fs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The patterns of .gitignore mean what they mean to git, which is asked too where it is there.
func TestIgnore(t *testing.T) {
	paths := []string{
		"a", "b", "a.log", "b.log", "dir/", "dir/a", "dir/a.log", "dir/sub/", "dir/sub/a", "dir/sub/a.log", "dir/sub/deep/a",
		"#a", "!a", "a ", "a b", "[a]", "a\\b", "é.txt", "x/dir/", "x/dir/a", "foo/bar", "foo/x/bar", "foo/x/y/bar", "A", "-a", "*", "abc", "a-c",
	}
	for _, tt := range []struct {
		patterns string
		want     string // those of paths that are ignored by themselves
	}{
		{"a", "a dir/a dir/sub/a dir/sub/deep/a x/dir/a"},
		{"/a", "a"},
		{"a/", ""},
		{"*.log", "a.log b.log dir/a.log dir/sub/a.log"},
		{"*.log\n!b.log", "a.log dir/a.log dir/sub/a.log"},
		{"!b.log\n*.log", "a.log b.log dir/a.log dir/sub/a.log"},
		{"dir/", "dir/ x/dir/"},
		{"dir", "dir/ x/dir/"},
		{"/dir", "dir/"},
		{"dir/a", "dir/a"},
		{"dir/*", "dir/a dir/a.log dir/sub/"},
		{"dir/**", "dir/a dir/a.log dir/sub/ dir/sub/a dir/sub/a.log dir/sub/deep/a"},
		{"**/dir", "dir/ x/dir/"},
		{"**/dir/a", "dir/a x/dir/a"},
		{"foo/**/bar", "foo/bar foo/x/bar foo/x/y/bar"},
		{"foo/*/bar", "foo/x/bar"},
		{"dir/**/a", "dir/a dir/sub/a dir/sub/deep/a"},
		{"# a\n\\#a\n", "#a"},
		{"\\!a", "!a"},
		{"a\\ ", "a "},
		{"a  ", "a dir/a dir/sub/a dir/sub/deep/a x/dir/a"},
		{"a b\r\n", "a b"},
		{"\\[a\\]", "[a]"},
		{"[ab]", "a b dir/a dir/sub/a dir/sub/deep/a x/dir/a"},
		{"[!a]", "b A *"},
		{"[^a]", "b A *"},
		{"[a", ""},
		{"[[:upper:]]", "A"},
		{"a[b-]c", "abc a-c"},
		{"?b", ""},
		{"a?b", "a b|a\\b"},
		{"é.*", "é.txt"},
		{"\\*", "*"},
		{"*/a", "dir/a"},
		{"a**c", "abc a-c"},
		{"/", ""},
		{"\n\n\\", ""},
	} {
		ig := &ignores{patterns: parseIgnore(tt.patterns)}
		var got []string
		for _, p := range paths {
			if ig.match(strings.TrimSuffix(p, "/"), strings.HasSuffix(p, "/")) {
				got = append(got, p)
			}
		}
		want := slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return !slices.Contains(names(tt.want, paths), p) })
		if !slices.Equal(got, want) {
			t.Errorf("%q ignores %q, want %q", tt.patterns, got, want)
		}
		askGit(t, tt.patterns, paths, ig)
	}
}

// Classes of characters by name hold as many ASCII characters as git's, which knows four spaces.
func TestIgnoreClasses(t *testing.T) {
	var paths []string
	for c := byte(1); c < 127; c++ {
		if c != '/' && c != '.' {
			paths = append(paths, string(rune(c)))
		}
	}
	for class, want := range map[string]int{
		"alpha": 52, "digit": 10, "alnum": 62, "upper": 26, "lower": 26, "space": 4, "blank": 2, "punct": 30, "xdigit": 22,
		"cntrl": 31, "print": 93, "graph": 92, "none": 0,
	} {
		patterns := "[[:" + class + ":]]"
		ig := &ignores{patterns: parseIgnore(patterns)}
		n := 0
		for _, p := range paths {
			if ig.match(p, false) {
				n++
			}
		}
		if n != want {
			t.Errorf("%s matches %d characters, want %d", patterns, n, want)
		}
	}
}

// names are the paths in list, whose names may hold spaces.
func names(list string, paths []string) (out []string) {
	for part := range strings.SplitSeq(list, "|") {
		if slices.Contains(paths, part) {
			out = append(out, part)
			continue
		}
		out = append(out, strings.Fields(part)...)
	}
	return out
}

// askGit compares the files that are ignored, by themselves or with a folder around them, with
// those that git ignores.
func askGit(t *testing.T, patterns string, paths []string, ig *ignores) {
	git, err := exec.LookPath("git")
	if err != nil {
		return
	}
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{".gitignore": patterns})
	run := func(args ...string) string {
		cmd := exec.Command(git, args...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return string(out)
	}
	run("init", "-q")
	var ours []string
	for _, p := range paths {
		if strings.HasSuffix(p, "/") {
			continue
		}
		writeTree(t, dir, map[string]string{p: ""})
		for at, isDir := p, false; at != "."; at, isDir = filepath.Dir(at), true {
			if ig.match(at, isDir) {
				ours = append(ours, p)
				break
			}
		}
	}
	theirs := strings.FieldsFunc(run("ls-files", "--others", "--ignored", "--exclude-standard", "-z"), func(r rune) bool { return r == 0 })
	slices.Sort(ours)
	slices.Sort(theirs)
	if !slices.Equal(ours, theirs) {
		t.Errorf("%q: we ignore %q, git %q", patterns, ours, theirs)
	}
}

// FuzzGlob checks that matching a name needs no more than the simplest of all matchers says, on
// globs without classes.
func FuzzGlob(f *testing.F) {
	f.Add("*a*b", "xaxb")
	f.Add("?é*", "ééx")
	f.Add("**", "")
	f.Add("a\\*b", "a*b")
	f.Fuzz(func(t *testing.T, glob, name string) {
		if strings.ContainsAny(glob+name, "[/") || len(glob) > 20 || len(name) > 40 || strings.ToValidUTF8(glob+name, "") != glob+name {
			return
		}
		want, err := filepath.Match(glob, name)
		if err != nil {
			want = false
		}
		if got := matchName(glob, name); got != want {
			t.Errorf("matchName(%q, %q) = %v, want %v", glob, name, got, want)
		}
	})
}
