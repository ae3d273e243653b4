package archive

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"
	"unicode/utf8"

	"jp/convstore"
	"jp/tools/jsondoc"
)

// The lines of an export, JSON each:
//
//	{"jp_export":1}                                the first
//	{"conversation":{...}}                         Exported
//	{"event":{"id":...,"time":...,"body":{...}}}   of the conversation above it
//	{"delegation":{...}}                           Delegation
//	{"end":{"conversations":N,"events":N}}         the last; else the export was cut off
//
// A body that is not valid UTF-8 or has line breaks is in body_base64 instead. In a delegation, id
// is empty, and within is the number, from 1, of another delegation of the same ledger in this
// export.

// exportVersion is the version of these lines.
const exportVersion = 1

// Bounds of what is imported.
const (
	MaxPiece = 256 << 20 // bytes of a line, or of another piece
	// MaxValues bounds the values of one, see [jsondoc.Crowded], but not of an event as LineWriter
	// writes it: package convstore bounds what it decodes of those.
	MaxValues = 1 << 20
)

// exportEnd counts the pieces before the last line.
type exportEnd struct {
	Conversations int `json:"conversations"`
	Events        int `json:"events"`
}

// LineWriter writes pieces as lines. Close writes the last line and does not close the underlying
// writer. An error of that writer is returned as it is.
type LineWriter struct {
	w     io.Writer
	buf   []byte
	begun bool
	end   exportEnd
}

// NewLineWriter returns a LineWriter on w, which should be buffered.
func NewLineWriter(w io.Writer) *LineWriter { return &LineWriter{w: w} }

// Write writes one piece.
func (w *LineWriter) Write(p Piece) error {
	if err := w.begin(); err != nil {
		return err
	}
	switch {
	case p.Conversation != nil:
		w.end.Conversations++
		return w.object("conversation", p.Conversation)
	case p.Event != nil:
		w.end.Events++
		return w.event(p.Event)
	}
	return w.object("delegation", p.Delegation)
}

// Close writes the last line.
func (w *LineWriter) Close() error {
	if err := w.begin(); err != nil {
		return err
	}
	return w.object("end", w.end)
}

func (w *LineWriter) begin() error {
	if w.begun {
		return nil
	}
	w.begun = true
	_, err := fmt.Fprintf(w.w, "{\"jp_export\":%d}\n", exportVersion)
	return err
}

func (w *LineWriter) object(name string, v any) error {
	b, err := jsondoc.Encode(v)
	if err != nil {
		return err
	}
	w.buf = append(append(append(w.buf[:0], `{"`...), name...), `":`...)
	w.buf = append(append(w.buf, b...), "}\n"...)
	_, err = w.w.Write(w.buf)
	return err
}

func (w *LineWriter) event(e *ExportedEvent) error {
	id, err := jsondoc.Encode(e.ID)
	if err != nil {
		return err
	}
	b := append(append(w.buf[:0], `{"event":{"id":`...), id...)
	b = e.Time.UTC().AppendFormat(append(b, `,"time":"`...), time.RFC3339Nano)
	if bytes.ContainsAny(e.Body, "\r\n") || !utf8.Valid(e.Body) {
		b = base64.StdEncoding.AppendEncode(append(b, `","body_base64":"`...), e.Body)
		b = append(b, '"')
	} else {
		b = append(append(b, `","body":`...), e.Body...)
	}
	w.buf = append(b, "}}\n"...)
	_, err = w.w.Write(w.buf)
	return err
}

// ReadLines reads one or several exports that a LineWriter wrote. Name is the name of the input,
// for positions and errors. The iteration ends with the first error: an *ImportError unless r
// failed. The pieces own their bytes.
func ReadLines(r io.Reader, name string) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		d := lineReader{r: bufio.NewReaderSize(r, 1<<20), name: name}
		for {
			line, err := d.next()
			var p Piece
			if err == nil {
				if p, err = d.decode(line); err != nil {
					err = d.at(err)
				}
			}
			switch {
			case err == io.EOF:
				return
			case err != nil:
				yield(Piece{}, err)
				return
			case p == Piece{}:
				continue
			}
			p.Pos = d.pos()
			if !yield(p, nil) {
				return
			}
		}
	}
}

// lineReader is the state of ReadLines.
type lineReader struct {
	r       *bufio.Reader
	name    string
	n       int // number of the line, from 1
	open    bool
	end     exportEnd // counted so far
	current convstore.ID
}

func (d *lineReader) pos() string { return fmt.Sprintf("%s:%d", d.name, d.n) }

func (d *lineReader) at(err error) error { return &ImportError{Pos: d.pos(), Err: err} }

// next returns a copy of the next line that is not blank, or io.EOF at the end of an export.
func (d *lineReader) next() ([]byte, error) {
	for {
		var line []byte
		part, err := d.r.ReadSlice('\n')
		for ; err == bufio.ErrBufferFull; part, err = d.r.ReadSlice('\n') {
			if line = append(line, part...); len(line) > MaxPiece {
				d.n++
				return nil, d.at(fmt.Errorf("longer than %d MiB", MaxPiece>>20))
			}
		}
		line = append(line, part...)
		if len(line) > 0 {
			d.n++
		}
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("%s: %w", d.name, err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
		if err == io.EOF {
			switch {
			case d.n == 0:
				return nil, &ImportError{Pos: d.name, Err: errors.New("is empty")}
			case d.open:
				return nil, d.at(errors.New("ends before the last line of the export: it was cut off"))
			}
			return nil, io.EOF
		}
	}
}

// decode decodes one line. For the first and the last line it returns an empty piece.
func (d *lineReader) decode(line []byte) (Piece, error) {
	if e, ok := fastEvent(line); ok && d.current != 0 && d.open {
		e.Conversation = d.current
		d.end.Events++
		return Piece{Event: e}, nil
	}
	var l struct {
		Version      *json.RawMessage `json:"jp_export"`
		Conversation *Exported        `json:"conversation"`
		Event        *struct {
			ID     *string         `json:"id"`
			Time   *time.Time      `json:"time"`
			Body   json.RawMessage `json:"body"`
			Base64 []byte          `json:"body_base64"`
		} `json:"event"`
		Delegation *convstore.Delegation `json:"delegation"`
		End        *exportEnd            `json:"end"`
	}
	if !d.open {
		return Piece{}, d.first(line)
	}
	if jsondoc.Crowded(line, MaxValues) {
		return Piece{}, fmt.Errorf("more than %d values", MaxValues)
	}
	if jsondoc.Crowded(line, jsondoc.MaxValues) {
		if ms, err := jsondoc.Members(line); err == nil && !(len(ms) == 1 && ms[0].Name == "event") {
			return Piece{}, fmt.Errorf("more than %d values", jsondoc.MaxValues)
		}
	}
	if err := jsondoc.Strict(line, &l); err != nil {
		return Piece{}, err
	}
	n := 0
	for _, has := range []bool{l.Version != nil, l.Conversation != nil, l.Event != nil, l.Delegation != nil, l.End != nil} {
		if has {
			n++
		}
	}
	switch {
	case n != 1:
		return Piece{}, errors.New("want one of conversation, event, delegation and end")
	case l.Version != nil:
		return Piece{}, errors.New("another export begins before the last line of this one")
	case l.End != nil:
		if *l.End != d.end {
			return Piece{}, fmt.Errorf("the export says that it holds %d conversations and %d events, but it holds %d and %d",
				l.End.Conversations, l.End.Events, d.end.Conversations, d.end.Events)
		}
		d.open, d.current, d.end = false, 0, exportEnd{}
		return Piece{}, nil
	case l.Conversation != nil:
		d.end.Conversations++
		d.current = l.Conversation.ID
		return Piece{Conversation: l.Conversation}, l.Conversation.check()
	case l.Delegation != nil:
		return Piece{Delegation: l.Delegation}, checkExchanged(l.Delegation)
	}
	e := l.Event
	d.end.Events++
	switch {
	case d.current == 0:
		return Piece{}, errors.New("an event before any conversation")
	case e.ID == nil || e.Time == nil || (e.Body == nil) == (e.Base64 == nil):
		return Piece{}, errors.New("event: want id, time and body")
	case e.Base64 != nil:
		e.Body = e.Base64
	}
	return Piece{Event: &ExportedEvent{Conversation: d.current, ID: *e.ID, Time: *e.Time, Body: e.Body}}, nil
}

// first decodes the first line of an export.
func (d *lineReader) first(line []byte) error {
	var l struct {
		Version *int `json:"jp_export"`
	}
	err := json.Unmarshal(line, &l)
	switch {
	case err != nil || l.Version == nil:
		return errors.New(`not an export: its first line is not {"jp_export":1}`)
	case *l.Version > exportVersion:
		return fmt.Errorf("written by a newer version (export %d, this one knows %d)", *l.Version, exportVersion)
	case *l.Version != exportVersion:
		return fmt.Errorf("unknown version %d of an export", *l.Version)
	}
	d.open = true
	return nil
}

// fastEvent decodes the line of an event in the form that LineWriter writes. It does not check that
// the body is one JSON value without further members after it: decoding the body does.
func fastEvent(line []byte) (*ExportedEvent, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"event":{"id":"`))
	if !ok {
		return nil, false
	}
	id, rest, ok := bytes.Cut(rest, []byte(`","time":"`))
	if !ok || bytes.ContainsAny(id, `"\`) || !utf8.Valid(id) {
		return nil, false
	}
	at, rest, ok := bytes.Cut(rest, []byte(`","body":`))
	if !ok || !bytes.HasSuffix(rest, []byte("}}")) {
		return nil, false
	}
	t, err := time.Parse(time.RFC3339Nano, string(at))
	if err != nil {
		return nil, false
	}
	return &ExportedEvent{ID: string(id), Time: t, Body: rest[:len(rest)-2]}, true
}

// ImportError says what is wrong with a piece of an import. The import changed nothing.
type ImportError struct {
	Pos string // file and line, or another position; "" = not known
	Err error
}

func (e *ImportError) Error() string {
	if e.Pos == "" {
		return "import: " + e.Err.Error()
	}
	return e.Pos + ": " + e.Err.Error()
}

// Unwrap returns what is wrong.
func (e *ImportError) Unwrap() error { return e.Err }
