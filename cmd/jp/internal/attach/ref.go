package attach

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"jp/convstore"
	"jp/tools/jsondoc"
)

// Ref names something to attach in JSON: a string, which is a path or an address, or an object.
type Ref struct {
	File  string `json:"file,omitempty"`  // path of a file or folder
	URL   string `json:"url,omitempty"`   // address
	Lines string `json:"lines,omitempty"` // lines of the file, from 1: "10-20", "10-"
	Bytes string `json:"bytes,omitempty"` // bytes of the file, from 0: "0-4095", "4096-"
}

// Refs is one reference in JSON, or a list of them.
type Refs []Ref

// UnmarshalJSON reads a string, an object or a list of these.
func (r *Refs) UnmarshalJSON(raw []byte) error {
	list := []json.RawMessage{raw}
	switch {
	case string(raw) == "null":
		*r = nil
		return nil
	case raw[0] == '[':
		if err := json.Unmarshal(raw, &list); err != nil {
			return err
		}
	}
	*r = make(Refs, len(list))
	for i, one := range list {
		ref, err := parseRef(one)
		if err != nil {
			return fmt.Errorf("attach: %w", err)
		}
		(*r)[i] = ref
	}
	return nil
}

func parseRef(raw []byte) (ref Ref, err error) {
	var text string
	switch {
	case json.Unmarshal(raw, &text) == nil && raw[0] == '"':
		if IsURL(text) {
			return Ref{URL: text}, nil
		}
		ref.File = text
	case raw[0] != '{':
		return ref, errors.New("want a path, an address, or an object with file or url")
	default:
		if err := jsondoc.Strict(raw, &ref); err != nil {
			return ref, err
		}
	}
	switch {
	case (ref.File == "") == (ref.URL == ""):
		return ref, errors.New("want one of file and url")
	case strings.ContainsRune(ref.File, 0):
		return ref, errors.New("file: holds a NUL byte")
	case ref.File == "" && ref.Lines+ref.Bytes != "":
		return ref, errors.New("lines, bytes: are those of a file")
	case ref.Lines != "" && ref.Bytes != "":
		return ref, errors.New("want one of lines and bytes")
	}
	if _, _, err := span(ref.Lines, 1); err != nil {
		return ref, fmt.Errorf("lines: %w", err)
	}
	if _, _, err := span(ref.Bytes, 0); err != nil {
		return ref, fmt.Errorf("bytes: %w", err)
	}
	return ref, nil
}

// span reads "from-to", of which to may be missing and is -1 then. Both are in the span. "" is all
// from least.
func span(text string, least int64) (from, to int64, err error) {
	if text == "" {
		return least, -1, nil
	}
	first, last, ok := strings.Cut(text, "-")
	from, err = strconv.ParseInt(first, 10, 64)
	if to = -1; err == nil && last != "" {
		to, err = strconv.ParseInt(last, 10, 64)
	}
	if !ok || err != nil || from < least || last != "" && to < from {
		return 0, 0, fmt.Errorf("%q is no range such as 10-20 or 10-", text)
	}
	return from, to, nil
}

// Refs reads what references name. A relative path is one below r.Dir.
func (r *Reader) Refs(ctx context.Context, refs Refs) (list []convstore.Attachment, err error) {
	for _, ref := range refs {
		var some []convstore.Attachment
		switch {
		case ref.URL != "":
			some = make([]convstore.Attachment, 1)
			some[0], err = r.URL(ctx, ref.URL)
		case ref.Lines+ref.Bytes != "":
			some = make([]convstore.Attachment, 1)
			some[0], err = r.part(ctx, ref)
		default:
			some, err = r.Path(ctx, ref.File)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	return list, nil
}

// part reads lines or bytes of a file of text, of whatever size the file is. Where bytes begin or
// end within a character, that is left out.
func (r *Reader) part(ctx context.Context, ref Ref) (none convstore.Attachment, err error) {
	f, err := r.open(ref.File)
	if err != nil {
		return none, err
	}
	defer func() { _ = f.Close() }()
	source := ref.source()
	var b []byte
	if ref.Lines != "" {
		b, err = linesOf(ctx, f, ref.Lines)
	} else {
		b, err = bytesOf(f, ref.Bytes)
	}
	if err != nil {
		return none, named(source, err)
	}
	return r.keep(source, "text/plain", b)
}

// linesOf ends with ctx: where a line begins nobody knows, and the file may be of any size.
func linesOf(ctx context.Context, f io.Reader, lines string) (b []byte, err error) {
	from, to, err := span(lines, 1)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(f, 64<<10)
	n := int64(1)
	for to < 0 || n <= to {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		piece, err := in.ReadSlice('\n')
		if n >= from {
			b = append(b, piece...)
		}
		switch {
		case err == io.EOF && (n < from || len(b) == 0):
			return nil, fmt.Errorf("there is no line %d", from)
		case err == io.EOF, len(b) > MaxOne: // keep returns the error of what is too large
			return b, nil
		case err == nil:
			n++
		case err != bufio.ErrBufferFull:
			return nil, err
		}
	}
	return b, nil
}

func bytesOf(f io.ReadSeeker, part string) ([]byte, error) {
	from, to, err := span(part, 0)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil, err
	}
	most := int64(MaxOne + 1)
	if to >= 0 && to-from < most {
		most = to - from + 1
	}
	b, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil, err
	}
	if len(b) == 0 {
		return nil, fmt.Errorf("there is no byte %d", from)
	}
	for cut := 0; cut < utf8.UTFMax-1 && from > 0 && len(b) > 0 && !utf8.RuneStart(b[0]); cut++ {
		b = b[1:]
	}
	for cut := 1; cut < utf8.UTFMax && cut <= len(b); cut++ {
		if last := b[len(b)-cut:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				b = bytes.TrimSuffix(b, last)
			}
			break
		}
	}
	return b, nil
}

// source returns the source of what a reference names; of a folder it begins those of its files.
func (ref Ref) source() string {
	switch {
	case ref.URL != "":
		return WithoutValues(ref.URL)
	case ref.Lines != "":
		return ref.File + ":" + ref.Lines
	case ref.Bytes != "":
		return ref.File + " bytes " + ref.Bytes
	}
	return ref.File
}

// Made reports whether attachments have the sources of these references.
func (r Refs) Made(list []convstore.Attachment) bool {
	of := func(ref Ref, a convstore.Attachment) bool {
		source := strings.ToValidUTF8(ref.source(), "\uFFFD")
		if ref.File == "" || IsURL(a.Source) {
			return a.Source == source
		}
		below, err := filepath.Rel(source, a.Source)
		return err == nil && filepath.IsLocal(below)
	}
	for _, ref := range r {
		if !slices.ContainsFunc(list, func(a convstore.Attachment) bool { return of(ref, a) }) {
			return false
		}
	}
	return !slices.ContainsFunc(list, func(a convstore.Attachment) bool {
		return !slices.ContainsFunc(r, func(ref Ref) bool { return of(ref, a) })
	})
}
