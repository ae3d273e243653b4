package lint

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/term"
	"jp/profiles"
	"jp/tools"
)

// Finding is one mistake at one place.
type Finding struct {
	File   string `json:"file"` // relative to the workspace if the file is in it; "" = no file
	Line   int    `json:"line"` // 0 = the whole file
	Key    string `json:"key"`  // dotted; "" = none
	Reason string `json:"reason"`
	Hint   string `json:"hint"`
}

// add adds an error of a loader.
func (l *Linter) add(err error) {
	if err == nil {
		return
	}
	if all, ok := err.(interface{ Unwrap() []error }); ok { // errors.Join
		for _, e := range all.Unwrap() {
			l.add(e)
		}
		return
	}
	var config *profiles.Error
	var definition *tools.DefinitionError
	switch {
	case errors.As(err, &config):
		file := config.File
		if file == "" && config.Layer != "" {
			file = config.Layer
		}
		l.found = append(l.found, Finding{File: l.ws.Relative(file), Line: config.Line, Key: config.Key, Reason: config.Msg, Hint: config.Hint})
	case errors.As(err, &definition):
		file, line := splitPosition(definition.Pos)
		key := "tool " + definition.Tool
		if definition.Key != "" {
			key += ": " + definition.Key
		}
		l.found = append(l.found, Finding{File: l.ws.Relative(file), Line: line, Key: key, Reason: definition.Msg, Hint: definition.Hint})
	default:
		file, reason, ok := strings.Cut(err.Error(), ": ")
		if !ok || !filepath.IsAbs(file) {
			file, reason = "", err.Error()
		}
		file, line := splitPosition(file)
		l.found = append(l.found, Finding{File: l.ws.Relative(file), Line: line, Reason: reason})
	}
}

// addStart adds the reason why a query would not start, unless a finding already says so.
func (l *Linter) addStart(err error) {
	if e, ok := err.(*run.ProfileError); ok {
		err = e.Err
	}
	if e := (*model.Error)(nil); errors.As(err, &e) && l.wrong[subject(e)] {
		return
	}
	r := console.Explain(err)
	if l.wrong[r.Message] {
		return
	}
	before := l.found
	l.found = nil
	l.add(err)
	for _, f := range l.found {
		if f.Hint == "" {
			f.Hint = r.Hint
		}
		tool, reason, _ := strings.Cut(strings.TrimPrefix(f.Reason, "tool "), ": ")
		if at, ok := l.places[tool]; ok && f.File == "" {
			f.File, f.Line, f.Key, f.Reason = l.ws.Relative(at.File), at.Line, "tool "+tool, reason
		}
		said := false
		for _, b := range before {
			said = said || f.Reason == b.Reason || strings.HasSuffix(f.Reason, b.Key+": "+b.Reason)
		}
		if !said {
			before = append(before, f)
		}
	}
	l.found = before
}

// subject returns the id of the model that an error is about, or else the error's text.
func subject(e *model.Error) string { return cmp.Or(e.Model, e.Error()) }

// say adds a finding at the place of a setting.
func (l *Linter) say(at profiles.Position, key, reason, hint string) {
	l.found = append(l.found, Finding{File: l.ws.Relative(cmp.Or(at.File, at.Layer)), Line: at.Line, Key: key, Reason: reason, Hint: hint})
}

// splitPosition splits file:line; the line is 0 if there is none.
func splitPosition(pos string) (string, int) {
	if i := strings.LastIndexByte(pos, ':'); i > 0 {
		if n, err := strconv.Atoi(pos[i+1:]); err == nil {
			return pos[:i], n
		}
	}
	return pos, 0
}

// Findings returns what was found, sorted by file and line, each once.
func (l *Linter) Findings() []Finding {
	slices.SortStableFunc(l.found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Reason, b.Reason))
	})
	l.found = append([]Finding{}, slices.Compact(l.found)...)
	return l.found
}

// Report writes the findings. If there are none, it says well on a terminal.
func (l *Linter) Report(con *console.Console, well string) error {
	var err error
	if l.Findings(); con.JSON() {
		err = con.Document(l.found)
	} else {
		err = con.Text(func(w *bufio.Writer) error {
			for _, f := range l.found {
				fmt.Fprintln(w, term.Line(f.String()))
			}
			return nil
		})
	}
	if err == nil && len(l.found) > 0 {
		err = exit.Quiet(exit.Usage)
	} else if err == nil && con.Pretty() {
		con.Note("%s", well)
	}
	return err
}

// String is `file:line: key: reason (hint)`.
func (f Finding) String() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File)
		if f.Line > 0 {
			fmt.Fprintf(&b, ":%d", f.Line)
		}
		b.WriteString(": ")
	}
	if f.Key != "" {
		b.WriteString(f.Key + ": ")
	}
	b.WriteString(f.Reason)
	if f.Hint != "" {
		b.WriteString(" (" + f.Hint + ")")
	}
	return b.String()
}
