package batch

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"jp/cmd/jp/internal/attach"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
	"jp/profiles/effort"
	"jp/tools/jsondoc"
	"jp/tools/schema"
)

// lines are the queries of a batch, as they are read from stdin. A file, and what was read whole
// because its number of lines decides something, is checked before anything runs. From a pipe a
// query is read when there is a slot for it; the next one is read ahead.
type lines struct {
	o *options

	whole io.ReaderAt // nil = a pipe
	size  int64       // bytes of whole
	total int         // number of queries of the shard; -1 = not known, or not yet
	from  int         // number of queries before the shard
	count int         // number of all queries, where total is known

	in   *scanner
	pipe chan scanned // what in reads from a pipe; nil = whole
	held []delegate.Item
	err  error // end of the lines, when held is empty; nil = there may be more
	read int   // number of queries that next has returned
}

type scanned struct {
	item delegate.Item
	err  error
}

// openLines opens stdin. With whole it is read to its end first; text is then what it has.
func openLines(ctx context.Context, con *console.Console, o *options, whole bool) (l *lines, text string, err error) {
	l = &lines{o: o, total: -1}
	file, _ := con.Env.Stdin.(*os.File)
	switch at, size := regular(file); {
	case whole || o.shard.Set && size < 0:
		if text, err = con.Stdin(ctx); err != nil {
			return nil, "", err
		}
		l.whole, l.size = strings.NewReader(text), int64(len(text))
	case size >= 0:
		l.whole, l.size = io.NewSectionReader(file, at, size-at), size-at
	default:
		l.pipe = make(chan scanned)
		in := newScanner(con.IO.In, o)
		go func() { // it stays in its last read when the command ends before the pipe does
			for {
				it, err := in.next()
				select {
				case l.pipe <- scanned{it, err}:
				case <-ctx.Done():
					return
				}
				if err != nil {
					return
				}
			}
		}()
		return l, "", nil
	}
	return l, text, l.check(con)
}

// regular returns the position in a regular file and its size, -1 if it is none.
func regular(f *os.File) (at, size int64) {
	if f == nil {
		return 0, -1
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, -1
	}
	if at, err = f.Seek(0, io.SeekCurrent); err != nil {
		return 0, -1
	}
	return at, max(info.Size(), at)
}

// check reads all queries once, and goes back to the first one of the shard. It returns the last of
// the mistakes and writes those before it, but not very many.
func (l *lines) check(con *console.Console) error {
	const enough = 10
	l.rewind()
	var wrong error
	for bad := 0; bad < enough && !l.in.broken; {
		_, err := l.in.next()
		if err == io.EOF {
			break
		}
		if err == nil {
			l.count++
			continue
		}
		if wrong != nil {
			con.Mistake(wrong)
		}
		if bad, wrong = bad+1, err; !errors.As(err, new(*exit.Error)) {
			break
		}
	}
	if wrong != nil {
		return wrong
	}
	from, to, err := l.o.part(l.count)
	l.from, l.total = from, to-from
	l.rewind()
	return err
}

// rewind goes back to the first query of the shard. It must not be called for a pipe.
func (l *lines) rewind() {
	l.in = newScanner(io.NewSectionReader(l.whole, 0, l.size), l.o)
	l.held, l.err, l.read = nil, nil, 0
	for range l.from {
		_, _ = l.in.next() // it was checked
	}
}

// next returns the next query, numbered from 1. The error is io.EOF, what is wrong with a line, or,
// for a pipe, the cause of ctx.
func (l *lines) next(ctx context.Context) (delegate.Item, error) {
	it, err := l.take(ctx)
	if err != nil {
		return it, err
	}
	l.read++
	it.Number = l.read
	return it, nil
}

func (l *lines) take(ctx context.Context) (it delegate.Item, err error) {
	switch {
	case len(l.held) > 0:
		it, l.held = l.held[0], nil
		return it, nil
	case l.err != nil:
		return it, l.err
	case l.pipe == nil && l.read == l.total:
		return it, io.EOF
	case l.pipe == nil:
		return l.in.next()
	case ctx.Err() != nil:
		return it, context.Cause(ctx)
	}
	select {
	case s := <-l.pipe:
		l.err = s.err
		return s.item, s.err
	case <-ctx.Done():
		return it, context.Cause(ctx)
	}
}

// back makes next return a query again.
func (l *lines) back(it delegate.Item) {
	l.held = append(l.held, it)
	l.read--
}

// all calls f with each query and goes back to the first one. It must not be called for a pipe.
func (l *lines) all(ctx context.Context, f func(delegate.Item) error) error {
	for {
		it, err := l.next(ctx)
		if err == nil {
			err = f(it)
		}
		switch {
		case err == io.EOF:
			l.rewind()
			return nil
		case err != nil:
			return err
		}
	}
}

// sumOf returns a hash of the first query of a batch and of its shard. Two batches with the same
// hash are the same one if their answers are those to the same lines, which earlier.answers checks.
func sumOf(first delegate.Item, shard string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q %q %q %q\n", first.Config, first.Query, first.ID, first.Context, first.Schema, fmt.Sprint(first.Attach), shard)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// markOf returns a name for a line by all that it asks. What only bounds or names it is not in it.
// Of equal lines each has a name of its own: before is how many there are before it.
func markOf(it delegate.Item, before int) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q %q %q %q\n", it.Config, it.Query, it.ID, it.Context, it.Schema, it.Overrides, fmt.Sprint(it.Attach))
	mark := hex.EncodeToString(h.Sum(nil)[:8])
	if before > 0 {
		mark += nth + strconv.Itoa(before)
	}
	return mark
}

// nth stands before the number in the mark of the second of equal lines and of those after it.
const nth = "x"

// first returns the mark of the first of equal lines.
func first(mark string) string {
	mark, _, _ = strings.Cut(mark, nth)
	return mark
}

// maxLine bounds a line, in bytes.
const maxLine = 16 << 20

// scanner reads the queries of a text, one a line. An error names its line, counted from 1; empty
// lines count too.
type scanner struct {
	o      *options
	in     *bufio.Reader
	n      int            // number of lines read
	broken bool           // whether the rest of a line that is too long is still to be read
	same   map[string]int // numbers of queries read, by the mark of the first of equal ones
}

func newScanner(r io.Reader, o *options) *scanner {
	return &scanner{o: o, in: bufio.NewReaderSize(r, 64<<10), same: map[string]int{}}
}

// next returns the next query. The error is io.EOF at the end.
func (s *scanner) next() (delegate.Item, error) {
	for {
		line, err := s.line()
		if err != nil {
			return delegate.Item{}, err
		}
		switch trimmed := bytes.TrimSpace(line); {
		case len(trimmed) == 0:
		case !utf8.Valid(line):
			return delegate.Item{}, s.bad("not UTF-8 text")
		case s.o.lines:
			return s.complete(query{Query: string(bytes.TrimRight(line, "\r\n"))})
		default:
			return s.parse(trimmed)
		}
	}
}

// line returns the next line.
func (s *scanner) line() ([]byte, error) {
	var line []byte
	for s.n++; ; {
		part, err := s.in.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			s.broken = true
			return nil, s.bad("more than %d MiB", maxLine>>20)
		}
		line = append(line, part...)
		switch {
		case err == bufio.ErrBufferFull:
		case err == nil, err == io.EOF && len(line) > 0, errors.Is(err, os.ErrClosed) && len(line) > 0:
			if s.n == 1 {
				line = bytes.TrimPrefix(line, []byte("\uFEFF"))
			}
			return line, nil
		case err == io.EOF, errors.Is(err, os.ErrClosed):
			return nil, io.EOF
		default:
			return nil, fmt.Errorf("stdin: %w", err)
		}
	}
}

func (s *scanner) bad(format string, args ...any) *exit.Error {
	return exit.Usagef("batch: line %d: %s", s.n, fmt.Sprintf(format, args...))
}

// query is one line of input.
type query struct {
	Query     string          `json:"query"`
	Label     string          `json:"label,omitempty"`
	Config    string          `json:"config,omitempty"`
	ID        string          `json:"id,omitempty"`
	Context   string          `json:"context_query,omitempty"`
	Schema    json.RawMessage `json:"schema,omitempty"`
	Model     string          `json:"model,omitempty"`
	Reasoning string          `json:"reasoning,omitempty"`
	MaxTokens *int64          `json:"max_tokens,omitempty"`
	Timeout   string          `json:"timeout,omitempty"`
	Attach    attach.Refs     `json:"attach,omitempty"`
	Reuse     *bool           `json:"reuse,omitempty"` // nil = as --reuse says
}

// item returns the task of a line, but for its profile. An error names the key.
func (l *query) item() (it delegate.Item, err error) {
	it = delegate.Item{Query: l.Query, Label: l.Label, ID: l.ID, Context: l.Context, Schema: l.Schema, MaxTokens: l.MaxTokens, Timeout: l.Timeout, Attach: l.Attach}
	if l.Reuse != nil {
		it.Reuse = *l.Reuse
	}
	if l.Model != "" {
		it.Overrides = append(it.Overrides, rule.OverrideModel+l.Model)
	}
	if l.Reasoning != "" {
		it.Overrides = append(it.Overrides, rule.OverrideReasoning+l.Reasoning)
	}
	switch {
	case strings.TrimSpace(l.Query) == "":
		return it, errors.New("query: is missing or empty")
	case strings.ContainsRune(l.Query, 0) || strings.ContainsRune(l.Context, 0):
		return it, errors.New("query: holds a NUL byte")
	case strings.ContainsRune(l.Model, 0):
		return it, errors.New("model: holds a NUL byte")
	case l.Reasoning != "" && !slices.Contains(effort.Levels(), l.Reasoning):
		return it, fmt.Errorf("reasoning: want one of %s", strings.Join(effort.Levels(), ", "))
	case l.MaxTokens != nil && *l.MaxTokens < 1:
		return it, errors.New("max_tokens: is less than 1")
	}
	if string(l.Schema) == "null" {
		it.Schema = nil
	} else if len(l.Schema) > 0 {
		answer, err := schema.ParseAnswer(l.Schema)
		if err != nil {
			return it, fmt.Errorf("schema: %w", err)
		}
		it.Schema = answer.JSON()
	}
	_, err = delegate.ParseTimeout(l.Timeout)
	return it, err
}

// parse reads one line.
func (s *scanner) parse(line []byte) (it delegate.Item, err error) {
	var l query
	into := any(&l)
	switch {
	case line[0] == '"':
		into = &l.Query
	case line[0] != '{' && json.Valid(line):
		return it, s.bad("want a string or an object")
	}
	if err := jsondoc.Strict(line, into); err != nil {
		bad := s.bad("%v", err)
		if line[0] != '"' && line[0] != '{' {
			bad = bad.WithHint("--lines takes lines of text as they are; in JSON `jq -cR .` quotes them")
		}
		return it, bad
	}
	return s.complete(l)
}

// complete returns the task of a line, with what the flags say for all lines.
func (s *scanner) complete(l query) (it delegate.Item, err error) {
	if l.Reuse == nil {
		l.Reuse = &s.o.reuse
	}
	if it, err = l.item(); err != nil {
		return it, s.bad("%v", err)
	}
	if it.Schema == nil {
		it.Schema = s.o.answer
	}
	switch it.Config = l.Config; {
	case l.Config == "" && !s.o.profile.Set:
		return it, s.bad("no profile: name one in config, or with --config PROFILE for all lines")
	case l.Config == "":
		it.Config = s.o.profile.Value
	case l.Config != s.o.profile.Value && !profileName(l.Config):
		return it, s.bad("config: %q is not the name of a profile; only --cfg takes a path", l.Config)
	}
	switch {
	case l.ID == "new":
		it.ID = ""
	case l.ID != "" && !s.o.rootID.Set:
		return it, s.bad("id: needs --root-id")
	case l.ID != "":
		if _, err := convstore.ParseID(l.ID); err != nil {
			return it, s.bad("id: %v", err)
		}
	}
	mark := markOf(it, 0)
	it.Mark = markOf(it, s.same[mark])
	s.same[mark]++
	return it, nil
}

// profileName reports whether the text names a profile, and is neither a path nor a directive.
func profileName(profile string) bool {
	return profile != "NONE" && profile != "WORKSPACE" && !strings.HasPrefix(profile, ".") && !strings.HasPrefix(profile, "/") &&
		!strings.HasPrefix(profile, "@") && !strings.HasSuffix(profile, ".toml") && !strings.ContainsAny(profile, "=")
}

// counted is a number of queries in words.
func counted(n int) string {
	return wording.Either(n == 1, "1 query", fmt.Sprintf("%d queries", n))
}
