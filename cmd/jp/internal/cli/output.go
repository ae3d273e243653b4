package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/markdown"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
)

// format returns the form of stdout, with auto decided.
func (a *console) format() string {
	if a.globals.format != formatAuto {
		return a.globals.format
	}
	if a.io.OutTTY {
		return formatTextPretty
	}
	return formatText
}

// json reports whether stdout is for programs: one of the JSON formats.
func (a *console) json() bool {
	switch a.globals.format {
	case formatJSON, formatJSONPretty, formatStream:
		return true
	}
	return false
}

// pretty reports whether text is laid out for people: tables, headings, colours.
func (a *console) pretty() bool { return a.format() == formatTextPretty }

// style is how Markdown is laid out on stdout.
func (a *console) style() markdown.Style {
	return markdown.Style{Width: a.io.Width, Color: a.io.Color, UTF8: a.io.UTF8}
}

// text writes to stdout through a buffer.
func (a *console) text(write func(w *bufio.Writer) error) error {
	w := bufio.NewWriterSize(a.io.Out, 32<<10)
	err := write(w)
	if flushed := w.Flush(); err == nil {
		err = flushed
	}
	return err
}

// document writes v as the one JSON document of stdout; a slice is one line for each element in stream-json.
func (a *console) document(v any) error {
	if a.format() != formatStream {
		b, err := encodeJSON(v, a.format() == formatJSONPretty)
		if err != nil {
			return err
		}
		_, err = a.io.Out.Write(b)
		return err
	}
	b, err := encodeJSON(v, false)
	if err != nil {
		return err
	}
	var items []json.RawMessage
	if json.Unmarshal(b, &items) != nil {
		items = []json.RawMessage{bytes.TrimSpace(b)}
	}
	return a.text(func(w *bufio.Writer) error {
		for _, item := range items {
			fmt.Fprintf(w, "%s", item)
			fmt.Fprintln(w)
		}
		return nil
	})
}

// encodeJSON encodes with a newline at the end, without HTML escapes, and so that a terminal only shows it.
func encodeJSON(v any, indent bool) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if indent {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	return term.EscapeJSON(b.Bytes()), nil
}

// list writes a JSON array element by element, so that a long one needs no memory: an array in json and json-pretty, lines in
// stream-json.
type list struct {
	w      *bufio.Writer
	format string
	n      int
}

func (l *list) add(v any) error {
	b, err := encodeJSON(v, false)
	if err != nil {
		return err
	}
	b = bytes.TrimSuffix(b, []byte("\n"))
	switch l.format {
	case formatStream:
		fmt.Fprintf(l.w, "%s", b)
		return l.w.WriteByte('\n')
	case formatJSONPretty:
		fmt.Fprint(l.w, wording.Either(l.n == 0, "[\n  ", ",\n  "))
		var out bytes.Buffer
		if err := json.Indent(&out, b, "  ", "  "); err != nil {
			return err
		}
		b = out.Bytes()
	default:
		fmt.Fprint(l.w, wording.Either(l.n == 0, "[", ","))
	}
	l.n++
	_, err = l.w.Write(b)
	return err
}

func (l *list) close() error {
	switch {
	case l.format == formatStream:
		return nil
	case l.n == 0:
		fmt.Fprint(l.w, "[")
	case l.format == formatJSONPretty:
		fmt.Fprintln(l.w)
	}
	_, err := l.w.WriteString("]\n")
	return err
}

// note writes a line of chrome to stderr, not with --quiet.
func (a *console) note(format string, args ...any) {
	if !a.globals.quiet {
		fmt.Fprintf(a.io.Err, "jp: %s\n", term.Line(fmt.Sprintf(format, args...)))
	}
}

// warn is a note that also goes to the log.
func (a *console) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	a.note("warning: %s", text)
	a.logger().Warn(text)
}

// verbosef is a note for -v.
func (a *console) verbosef(format string, args ...any) {
	if a.globals.verbose > 0 {
		a.note(format, args...)
	}
}

// fail says what went wrong, on stderr, and returns the exit status.
func (a *console) fail(err error) exit.Status {
	r := explain(err)
	if r.Message == "" {
		return r.Status
	}
	if r.Status != exit.Usage && r.Status != exit.NotFound {
		a.logger().Error(r.Message, "code", r.Code, "exit", int(r.Status))
	}
	if a.json() {
		writeErrorJSON(a.io.Err, r)
	} else {
		writeErrorText(a.io.Err, r)
	}
	return r.Status
}

func writeErrorText(w io.Writer, r report) {
	text := "jp: " + term.Line(r.Message) + "\n"
	if r.Hint != "" {
		text += "hint: " + term.Line(r.Hint) + "\n"
	}
	fmt.Fprint(w, text)
}

func writeErrorJSON(w io.Writer, r report) {
	var doc struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
			Hint    string `json:"hint"`
		} `json:"error"`
		Exit int `json:"exit"`
	}
	doc.Error.Code, doc.Error.Message, doc.Error.Hint, doc.Exit = r.Code, r.Message, r.Hint, int(r.Status)
	b, err := encodeJSON(doc, false)
	if err != nil {
		writeErrorText(w, r)
		return
	}
	fmt.Fprintf(w, "%s", b)
}
