// Package ini reads INI files that people write: sections with keys, each with its line. It refuses
// text that two readers could understand differently.
package ini

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/ini.v1"

	"jp/profiles/fault"
	"jp/profiles/tomldoc"
	"jp/tools/later"
)

// Section is one section of an INI file, its keys in the order of their lines.
type Section struct {
	Name string
	Line int // from 1
	Keys []Key
}

// Key is one key of a section with its value, unquoted.
type Key struct {
	Name, Value string
	Line        int // from 1
}

// Parse reads INI text. Its errors are *fault.Error without a file.
//
// The library reads sections and values. It knows no lines, merges what is there twice, takes text
// after a quote as part of the value, and an open quote as the beginning of a long value. So a scan
// goes first: it finds the lines and refuses what the two could read differently. Values are taken
// as they are written and unquoted here: "double" with \" and \\ for escapes, 'single' without any,
// and """ over several lines. Nothing is expanded.
func Parse(data []byte) ([]Section, error) {
	text, err := plainText(data)
	if err != nil {
		return nil, err
	}
	sections, err := scan(text)
	if err != nil {
		return nil, err
	}
	later.INI.Need()
	file, err := ini.LoadSources(ini.LoadOptions{
		IgnoreContinuation: true, IgnoreInlineComment: true, PreserveSurroundedQuote: true, KeyValueDelimiters: "=",
	}, []byte(text))
	if err != nil {
		return nil, &fault.Error{Msg: "not valid INI: " + tomldoc.OneLine(err.Error()), Err: err}
	}
	for i, s := range sections {
		read, err := file.GetSection(s.Name)
		if err != nil || len(read.Keys()) != len(s.Keys) {
			return nil, &fault.Error{Line: s.Line, Key: s.Name, Msg: "cannot be read without doubt: write it in plainer words"}
		}
		for j, k := range s.Keys {
			fail := func(err error) ([]Section, error) {
				return nil, &fault.Error{Line: k.Line, Key: s.Name + "." + k.Name, Msg: err.Error()}
			}
			if !read.HasKey(k.Name) {
				return fail(errors.New("cannot be read without doubt: write it in plainer words"))
			}
			raw := read.Key(k.Name).Value()
			if k.Value == `"""` {
				sections[i].Keys[j].Value = strings.TrimSpace(raw)
			} else if sections[i].Keys[j].Value, err = unquote(raw); err != nil {
				return fail(err)
			}
		}
	}
	return sections, nil
}

// plainText is UTF-8 text without a byte order mark, its lines ended by newlines alone.
func plainText(data []byte) (string, error) {
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	for line, s := range enumerate(text) {
		switch {
		case !utf8.ValidString(s):
			return "", &fault.Error{Line: line, Msg: "not UTF-8 text"}
		case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }):
			return "", &fault.Error{Line: line, Msg: "must not contain control characters"}
		}
	}
	return text, nil
}

// enumerate yields the lines of text without their newlines, numbered from 1.
func enumerate(text string) func(func(int, string) bool) {
	return func(yield func(int, string) bool) {
		n := 0
		for s := range strings.SplitSeq(text, "\n") {
			if n++; !yield(n, s) {
				return
			}
		}
	}
}

// scan finds sections and keys with their lines. A value is `"""` if it has several lines or could
// have, else empty.
func scan(text string) ([]Section, error) {
	var sections []Section
	seen := map[string]int{} // lines, by section and by section and key
	open := 0                // line of the """ that is not closed
	for n, line := range enumerate(text) {
		fail := func(key, format string, args ...any) ([]Section, error) {
			return nil, &fault.Error{Line: n, Key: key, Msg: fmt.Sprintf(format, args...)}
		}
		s := strings.TrimSpace(line)
		if open > 0 {
			if at := strings.Index(line, `"""`); at >= 0 {
				if strings.TrimSpace(line[at+3:]) != "" {
					return fail("", `must not go on behind the closing """`)
				}
				open = 0
			}
			continue
		}
		switch {
		case s == "" || s[0] == '#' || s[0] == ';':
		case s[0] == '[':
			name, rest, closed := strings.Cut(s[1:], "]")
			rest = strings.TrimSpace(rest)
			switch {
			case !closed:
				return fail("", "a section must end with ]")
			case name == "" || name != strings.TrimSpace(name) || strings.ContainsAny(name, `["'`+"`"):
				return fail("", "the name of a section must not be empty, quoted or surrounded by spaces")
			case rest != "" && rest[0] != '#' && rest[0] != ';' || strings.Contains(rest, "]"):
				return fail(name, "only a comment without ] may follow a section on its line")
			case seen[name] > 0:
				return fail(name, "the section is there twice, first in line %d", seen[name])
			}
			seen[name] = n
			sections = append(sections, Section{Name: name, Line: n})
		default:
			name, value, ok := strings.Cut(s, "=")
			name, value = strings.TrimSpace(name), strings.TrimSpace(value)
			switch {
			case !ok:
				return fail("", "is no section, comment or key = value")
			case name == "" || name == "-" || strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII || !tomldoc.IsBare(byte(r)) && r != '.' }):
				return fail("", "a key must be letters, digits, . - and _")
			case len(sections) == 0:
				return fail(name, "the key is before any section")
			}
			at := &sections[len(sections)-1]
			key := at.Name + "\x00" + name
			if seen[key] > 0 {
				return fail(at.Name+"."+name, "the key is there twice, first in line %d", seen[key])
			}
			seen[key] = n
			if strings.HasPrefix(value, "`") { // the library's quotes for several lines
				return fail(at.Name+"."+name, "must not begin with `: quote with \"")
			}
			k := Key{Name: name, Line: n}
			if rest, long := strings.CutPrefix(value, `"""`); long {
				k.Value = `"""`
				switch first := strings.Index(rest, `"""`); {
				case first < 0:
					open = n
				case strings.TrimSpace(rest[first+3:]) != "":
					return fail(at.Name+"."+name, `must not go on behind the closing """`)
				}
			}
			at.Keys = append(at.Keys, k)
		}
	}
	if open > 0 {
		return nil, &fault.Error{Line: open, Msg: `the """ is not closed`}
	}
	return sections, nil
}

// unquote reads a value of one line as it is written.
func unquote(raw string) (string, error) {
	var b strings.Builder
	switch {
	case raw == "":
		return "", nil
	case strings.HasSuffix(raw, `\`):
		return "", errors.New(`must not end with \: a value of several lines is written between """ and """`)
	case raw[0] != '"' && raw[0] != '\'':
		// A comment begins behind a space. Elsewhere # and ; could be part of the value, so that is
		// an error.
		for i := range len(raw) {
			if raw[i] != '#' && raw[i] != ';' {
				continue
			}
			if i > 0 && raw[i-1] != ' ' && raw[i-1] != '\t' {
				return "", fmt.Errorf("holds %c: put the value in quotes", raw[i])
			}
			return strings.TrimSpace(raw[:i]), nil
		}
		return raw, nil
	}
	quote := raw[0]
	for i := 1; i < len(raw); i++ {
		switch {
		case raw[i] == '\\' && quote == '"' && i+1 < len(raw) && (raw[i+1] == '"' || raw[i+1] == '\\'):
			i++
			b.WriteByte(raw[i])
		case raw[i] != quote:
			b.WriteByte(raw[i])
		default:
			if rest := strings.TrimSpace(raw[i+1:]); rest != "" && rest[0] != '#' && rest[0] != ';' {
				return "", fmt.Errorf("must not go on behind the closing %c", quote)
			}
			return b.String(), nil
		}
	}
	return "", fmt.Errorf("the %c is not closed", quote)
}
