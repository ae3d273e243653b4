package console

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/markdown"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
	"jp/tools/unseen"
)

// Format returns the form of stdout; auto is resolved.
func (c *Console) Format() string {
	if c.Globals.Format != FormatAuto {
		return c.Globals.Format
	}
	if c.IO.OutTTY {
		return formatTextPretty
	}
	return formatText
}

// JSON reports whether stdout is for programs: one of the JSON formats.
func (c *Console) JSON() bool {
	switch c.Globals.Format {
	case FormatJSON, FormatJSONPretty, FormatStream:
		return true
	}
	return false
}

// Pretty reports whether text is laid out for people: tables, headings, colours.
func (c *Console) Pretty() bool { return c.Format() == formatTextPretty }

// Style is how Markdown is laid out on stdout.
func (c *Console) Style() markdown.Style {
	return markdown.Style{Width: c.IO.Width, Color: c.IO.Color, UTF8: c.IO.UTF8}
}

// Text writes to stdout through a buffer.
func (c *Console) Text(write func(w *bufio.Writer) error) error {
	w := bufio.NewWriterSize(c.IO.Out, 32<<10)
	err := write(w)
	if flushed := w.Flush(); err == nil {
		err = flushed
	}
	return err
}

// Document writes v as the one JSON document of stdout; a slice is one line for each element in
// stream-json.
func (c *Console) Document(v any) error {
	if c.Format() != FormatStream {
		b, err := EncodeJSON(v, c.Format() == FormatJSONPretty)
		if err != nil {
			return err
		}
		_, err = c.IO.Out.Write(b)
		return err
	}
	b, err := EncodeJSON(v, false)
	if err != nil {
		return err
	}
	var items []json.RawMessage
	if json.Unmarshal(b, &items) != nil {
		items = []json.RawMessage{bytes.TrimSpace(b)}
	}
	return c.Text(func(w *bufio.Writer) error {
		for _, item := range items {
			fmt.Fprintf(w, "%s", item)
			fmt.Fprintln(w)
		}
		return nil
	})
}

// EncodeJSON encodes v with a newline at the end and without HTML escapes. Characters that control
// a terminal are escaped.
func EncodeJSON(v any, indent bool) ([]byte, error) {
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

// List writes a JSON array element by element, so that a long one is never in memory: an array in
// json and json-pretty, lines in stream-json.
type List struct {
	W      *bufio.Writer
	Format string
	n      int
}

func (l *List) Add(v any) error {
	b, err := EncodeJSON(v, false)
	if err != nil {
		return err
	}
	b = bytes.TrimSuffix(b, []byte("\n"))
	switch l.Format {
	case FormatStream:
		fmt.Fprintf(l.W, "%s", b)
		return l.W.WriteByte('\n')
	case FormatJSONPretty:
		fmt.Fprint(l.W, wording.Either(l.n == 0, "[\n  ", ",\n  "))
		var out bytes.Buffer
		if err := json.Indent(&out, b, "  ", "  "); err != nil {
			return err
		}
		b = out.Bytes()
	default:
		fmt.Fprint(l.W, wording.Either(l.n == 0, "[", ","))
	}
	l.n++
	_, err = l.W.Write(b)
	return err
}

func (l *List) Close() error {
	switch {
	case l.Format == FormatStream:
		return nil
	case l.n == 0:
		fmt.Fprint(l.W, "[")
	case l.Format == FormatJSONPretty:
		fmt.Fprintln(l.W)
	}
	_, err := l.W.WriteString("]\n")
	return err
}

// Field writes a line of stdout: a name and the spaces behind it, then a text. On a screen a
// text that is too wide goes on below, behind indent spaces.
func (c *Console) Field(w io.Writer, name, text string, indent int) {
	rows := []string{name + text}
	if c.Pretty() && c.IO.Width > 0 {
		rows = term.Hang(name, text, c.IO.Width, indent)
	}
	_, _ = io.WriteString(w, strings.Join(rows, "\n")+"\n")
}

// LaidOut writes to stdout a text in which every character shows. On a screen a line that is too
// wide goes on below, behind a margin: what is not ours cannot look like a line of ours.
func (c *Console) LaidOut(text string) error {
	_, err := io.WriteString(c.IO.Out, unseen.LaidOut(text, wording.Either(c.Pretty(), c.IO.Width, 0)))
	return err
}

// Path writes a line of a path and what is said of it: on a terminal each character of the path
// shows, else it is as it is, for a program.
func (c *Console) Path(path, rest string) error {
	_, err := io.WriteString(c.IO.Out, wording.Either(c.IO.OutTTY, unseen.Spell(path), path)+rest+"\n")
	return err
}

// Note writes a line about the work to stderr, unless --quiet is set.
func (c *Console) Note(format string, args ...any) {
	if !c.Globals.Quiet {
		c.write(fmt.Sprintf(format, args...))
	}
}

// Mistake writes an error to stderr beside the one with which the command ends. With JSON and --quiet
// there is only that one.
func (c *Console) Mistake(err error) {
	if !c.Globals.Quiet || !c.JSON() {
		c.write(err.Error())
	}
}

func (c *Console) write(line string) {
	_, _ = io.WriteString(stderr{c}, c.IO.Message("jp: "+term.Line(line)))
}

// Warn is a note that also goes to the log.
func (c *Console) Warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	c.Note("warning: %s", text)
	c.Logger().Warn(text)
}

// Verbosef writes a note if -v is set.
func (c *Console) Verbosef(format string, args ...any) {
	if c.Globals.Verbose > 0 {
		c.Note(format, args...)
	}
}

// Fail writes the error to stderr and returns the exit status.
func (c *Console) Fail(err error) exit.Status {
	r := Explain(err)
	if r.Message == "" {
		return r.Status
	}
	if r.Status != exit.Usage && r.Status != exit.NotFound {
		c.Logger().Error(r.Message, "code", r.Code, "exit", int(r.Status))
	}
	if c.JSON() {
		writeErrorJSON(c.IO, r)
	} else {
		writeErrorText(c.IO, r)
	}
	return r.Status
}

func writeErrorText(to *term.IO, r Report) {
	text := to.Message("jp: " + term.Line(r.Message))
	if r.Hint != "" {
		text += to.Message("hint: " + term.Line(r.Hint))
	}
	_, _ = io.WriteString(to.Err, text)
}

func writeErrorJSON(to *term.IO, r Report) {
	var doc struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
			Hint    string `json:"hint"`
		} `json:"error"`
		Exit int `json:"exit"`
	}
	doc.Error.Code, doc.Error.Message, doc.Error.Hint, doc.Exit = r.Code, r.Message, r.Hint, int(r.Status)
	b, err := EncodeJSON(doc, false)
	if err != nil {
		writeErrorText(to, r)
		return
	}
	_, _ = to.Err.Write(b)
}

// Table writes rows: laid out for a terminal, tab-separated for a pipe.
func (c *Console) Table(columns []term.Column, rows [][]string) error {
	return c.Text(func(w *bufio.Writer) error {
		if c.Pretty() {
			t := term.Table{Columns: columns, Rows: rows}
			return t.Write(w, c.IO)
		}
		for _, r := range rows {
			for i, cell := range r {
				r[i] = term.Escape(cell)
			}
			fmt.Fprintln(w, strings.TrimRight(strings.Join(r, "\t"), "\t"))
		}
		return nil
	})
}
