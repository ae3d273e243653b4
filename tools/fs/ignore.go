package fs

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"jp/tools/brief"
)

// ignores are the .gitignore files that hold for a folder, the nearest first. The zero pointer
// ignores nothing.
type ignores struct {
	base     string // folder of the file, relative like the paths that are matched; "" = the top
	patterns []pattern
	outer    *ignores
}

// maxIgnore bounds a .gitignore file in bytes; the rest does not count.
const maxIgnore = 256 << 10

// match reports whether path, relative to the top, is ignored. As in git the last matching pattern
// of the nearest file decides.
func (ig *ignores) match(path string, dir bool) bool {
	for ; ig != nil; ig = ig.outer {
		rel := path
		if ig.base != "" {
			rel = path[len(ig.base)+1:]
		}
		for i := len(ig.patterns) - 1; i >= 0; i-- {
			if p := &ig.patterns[i]; (!p.dirOnly || dir) && p.match(rel) {
				return !p.negate
			}
		}
	}
	return false
}

// withFile returns ig with the .gitignore of the folder dir added; base is the path of dir. As in
// git, a link in place of the file does not count.
func (ig *ignores) withFile(dir *os.Root, base string) *ignores {
	info, err := dir.Lstat(".gitignore")
	if err != nil {
		return ig
	}
	file, err := openRegular(dir, ".gitignore", info)
	if err != nil {
		return ig
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxIgnore))
	if err != nil {
		return ig
	}
	patterns := parseIgnore(string(text))
	if len(patterns) == 0 {
		return ig
	}
	return &ignores{base: base, patterns: patterns, outer: ig}
}

// parseIgnore reads the lines of a .gitignore file as gitignore(5) says.
func parseIgnore(text string) []pattern {
	var out []pattern
	for line := range strings.Lines(strings.TrimPrefix(text, "\uFEFF")) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		line = trimSpaces(line)
		if line == "" || line[0] == '#' {
			continue
		}
		negate := line[0] == '!'
		if negate {
			line = line[1:]
		}
		dirOnly := strings.HasSuffix(line, "/") && line != "/"
		if dirOnly {
			line = strings.TrimSuffix(line, "/")
		}
		if line == "" || line == "/" {
			continue
		}
		p := newPattern(line)
		p.negate, p.dirOnly = negate, dirOnly
		out = append(out, p)
	}
	return out
}

// trimSpaces removes the spaces at the end of line that are not escaped.
func trimSpaces(line string) string {
	end := len(line)
	for end > 0 && line[end-1] == ' ' {
		end--
	}
	slashes := 0
	for slashes < end && line[end-1-slashes] == '\\' {
		slashes++
	}
	if slashes%2 == 1 && end < len(line) {
		end++ // this space was escaped
	}
	return line[:end]
}

// pattern is a glob in the manner of git: * and ? match within a name, [] a class of characters, **
// any folders. A glob without a slash, or with one only at its end, is matched against names,
// others against the whole path.
type pattern struct {
	negate, dirOnly bool

	literal string   // whole name, if nothing in it is special
	suffix  string   // end of a name: *.ext
	parts   []string // of a path; one for a name
	anyDir  bool     // matched against the name alone
}

// newPattern makes the pattern of a glob.
func newPattern(glob string) pattern {
	p := pattern{anyDir: !strings.Contains(strings.TrimSuffix(glob, "/"), "/")}
	p.parts = strings.Split(strings.Trim(glob, "/"), "/")
	if p.anyDir {
		switch one := p.parts[0]; {
		case !strings.ContainsAny(one, `*?[\`):
			p.literal = one
		case strings.HasPrefix(one, "*") && one != "*" && !strings.ContainsAny(one[1:], `*?[\`):
			p.suffix = one[1:]
		}
	}
	return p
}

// match matches a slash-separated path.
func (p *pattern) match(path string) bool {
	if p.anyDir {
		name := path[strings.LastIndexByte(path, '/')+1:]
		switch {
		case p.literal != "":
			return name == p.literal
		case p.suffix != "":
			return strings.HasSuffix(name, p.suffix)
		}
		return matchName(p.parts[0], name)
	}
	return matchParts(p.parts, path)
}

// matchParts matches a path against parts. When a ** has taken too few names, only the last **
// takes another one. That is enough: what is before it has matched already.
func matchParts(parts []string, path string) bool {
	names := strings.Split(path, "/")
	i, j := 0, 0
	star, taken := -1, 0 // last ** in parts, and the names up to where it takes
	for j < len(names) {
		switch {
		case i < len(parts) && parts[i] == "**":
			if i == len(parts)-1 {
				return true // all that is inside, but not the folder itself
			}
			star, taken = i, j
			i++
		case i < len(parts) && matchName(parts[i], names[j]):
			i++
			j++
		case star >= 0:
			taken++
			i, j = star+1, taken
		default:
			return false
		}
	}
	return i == len(parts)
}

// matchName matches a name against a glob without slashes. A broken glob matches nothing.
func matchName(glob, name string) bool {
	star, taken := "", "" // part behind the last *, and the name from where it takes
	starred := false
	for name != "" {
		if strings.HasPrefix(glob, "*") {
			glob = strings.TrimLeft(glob, "*")
			if glob == "" {
				return true
			}
			star, taken, starred = glob, name, true
			continue
		}
		if matched, restGlob, restName := matchOne(glob, name); matched {
			glob, name = restGlob, restName
			continue
		}
		if !starred {
			return false
		}
		_, n := utf8.DecodeRuneInString(taken)
		taken = taken[n:]
		glob, name = star, taken
	}
	return strings.Trim(glob, "*") == ""
}

// matchOne matches the first character of name against the first element of glob, and returns what
// follows them.
func matchOne(glob, name string) (ok bool, restGlob, restName string) {
	if glob == "" {
		return false, "", ""
	}
	r, n := utf8.DecodeRuneInString(name)
	switch glob[0] {
	case '?':
		return true, glob[1:], name[n:]
	case '[':
		in, rest, closed := matchClass(glob, r)
		return closed && in, rest, name[n:]
	case '\\':
		if glob = glob[1:]; glob == "" {
			return false, "", ""
		}
	}
	g, m := utf8.DecodeRuneInString(glob)
	return g == r && glob[:m] == name[:n], glob[m:], name[n:]
}

// matchClass matches r against the class that glob begins with, such as [a-z_], [!0-9] or
// [[:alpha:]].
func matchClass(glob string, r rune) (in bool, rest string, closed bool) {
	glob = glob[1:]
	negate := strings.HasPrefix(glob, "!") || strings.HasPrefix(glob, "^")
	if negate {
		glob = glob[1:]
	}
	next := func() rune {
		if glob[0] == '\\' && len(glob) > 1 {
			glob = glob[1:]
		}
		c, n := utf8.DecodeRuneInString(glob)
		glob = glob[n:]
		return c
	}
	for first := true; glob != ""; first = false {
		if glob[0] == ']' && !first {
			return in != negate, glob[1:], true
		}
		if strings.HasPrefix(glob, "[:") {
			if name, after, ok := strings.Cut(glob[2:], ":]"); ok {
				in = in || posixClass(name, r)
				glob = after
				continue
			}
		}
		low := next()
		high := low
		if len(glob) > 1 && glob[0] == '-' && glob[1] != ']' {
			glob = glob[1:]
			high = next()
		}
		in = in || low <= r && r <= high
	}
	return false, "", false
}

func posixClass(name string, r rune) bool {
	if r > unicode.MaxASCII {
		return false
	}
	switch name {
	case "alpha":
		return unicode.IsLetter(r)
	case "digit":
		return unicode.IsDigit(r)
	case "alnum":
		return unicode.IsLetter(r) || unicode.IsDigit(r)
	case "upper":
		return unicode.IsUpper(r)
	case "lower":
		return unicode.IsLower(r)
	case "space":
		return strings.ContainsRune(" \t\r\n", r) // as git has it
	case "blank":
		return r == ' ' || r == '\t'
	case "punct":
		return unicode.IsPunct(r) || unicode.IsSymbol(r)
	case "xdigit":
		return strings.ContainsRune("0123456789abcdefABCDEF", r)
	case "cntrl":
		return unicode.IsControl(r)
	case "print":
		return unicode.IsPrint(r)
	case "graph":
		return unicode.IsPrint(r) && r != ' '
	}
	return false
}

// filter is the glob of a call: several patterns, one of which must match. The zero filter matches
// everything.
type filter []pattern

// maxGlob bounds a glob in bytes: each character of a name can be compared with all of it, in each
// of its alternatives, and that cannot be interrupted.
const maxGlob = 1 << 10

// newFilter reads a glob; {a,b} means either.
func newFilter(glob string) (filter, error) {
	switch {
	case glob == "":
		return nil, nil
	case len(glob) > maxGlob:
		return nil, fmt.Errorf("glob %s: is longer than %d bytes", brief.Quote(glob), maxGlob)
	}
	globs, err := braces(glob)
	if err != nil {
		return nil, err
	}
	var f filter
	for _, g := range globs {
		if strings.Trim(g, "/") == "" {
			return nil, fmt.Errorf("glob %s: matches nothing", brief.Quote(glob))
		}
		f = append(f, newPattern(g))
	}
	return f, nil
}

func (f filter) match(path string) bool {
	return len(f) == 0 || slices.ContainsFunc(f, func(p pattern) bool { return p.match(path) })
}

// braces expands {a,b} in a glob.
func braces(glob string) ([]string, error) {
	const most = 64
	done, todo := []string{}, []string{glob}
	for len(todo) > 0 {
		g := todo[0]
		todo = todo[1:]
		open := strings.IndexByte(g, '{')
		size := strings.IndexByte(g[max(open, 0):], '}')
		if open < 0 || size < 0 {
			done = append(done, g)
			continue
		}
		if strings.Contains(g[open+1:open+size], "{") {
			return nil, fmt.Errorf("glob %s: braces in braces", brief.Quote(glob))
		}
		for alt := range strings.SplitSeq(g[open+1:open+size], ",") {
			todo = append(todo, g[:open]+alt+g[open+size+1:])
		}
		if len(done)+len(todo) > most {
			return nil, fmt.Errorf("glob %s: makes more than %d globs", brief.Quote(glob), most)
		}
	}
	return done, nil
}
