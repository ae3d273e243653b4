package fs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"jp/tools/brief"
	"jp/tools/files"
)

// Bounds of fs_read_file and of what looks at files.
const (
	maxLine     = 4000       // bytes of a line that are shown
	maxScan     = 256 << 20  // bytes of a file that lines are counted in
	binaryProbe = 8000       // bytes at the beginning in which a NUL means binary
	maxEditable = 16_000_000 // bytes of a file that is edited
)

// readFile is fs_read_file.
func readFile(ctx context.Context, f *Files, limit int, raw json.RawMessage) (string, error) {
	args, err := arguments[struct {
		Path  string `json:"path"`
		Start int    `json:"start_line"`
		End   int    `json:"end_line"`
	}](raw)
	if err != nil {
		return "", err
	}
	if args.End != 0 && args.End < max(args.Start, 1) {
		return "", fmt.Errorf("end_line %d is before start_line %d", args.End, max(args.Start, 1))
	}
	p, err := f.find(args.Path, false)
	if err != nil {
		return "", err
	}
	defer p.Close()
	if p.info.IsDir() {
		return "", fmt.Errorf("%s: is a folder: fs_list_files lists it", VisiblePath(p.shown))
	}
	file, err := openRegular(p.dir, p.name, p.info)
	if err != nil {
		return "", named(p.shown, err)
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, 64<<10)
	if head, _ := in.Peek(binaryProbe); bytes.IndexByte(head, 0) >= 0 {
		return "", fmt.Errorf("%s: is a binary file of %s, not shown", VisiblePath(p.shown), brief.Size(p.info.Size()))
	}
	r := lineReader{
		in:    in,
		start: max(args.Start, 1),
		end:   args.End,
		room:  limit - SmallResult/2,
	}
	if err := r.read(ctx); err != nil {
		return "", named(p.shown, err)
	}
	if r.total < r.start && r.total > 0 {
		return "", fmt.Errorf("%s: start_line %d is behind the last line, %d", VisiblePath(p.shown), r.start, r.total)
	}
	return r.text(), nil
}

// lineReader reads some lines of a file and counts all of them.
type lineReader struct {
	in         *bufio.Reader
	start, end int // lines that are wanted, 1-based, inclusive; end 0 = the last
	room       int // bytes

	out     strings.Builder
	last    int  // the last line in out; 0 = none
	full    bool // no more lines fit
	total   int  // lines seen
	counted bool // total is all
	cutOff  int  // lines that were cut short
}

// read reads all that matters.
func (r *lineReader) read(ctx context.Context) error {
	scanned := 0
	for scanned < maxScan {
		if r.total%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		kept, size, err := r.line()
		if size > 0 {
			r.total++
			scanned += size
			r.take(kept, size)
		}
		if errors.Is(err, io.EOF) {
			r.counted = true
			return nil
		}
		if err != nil {
			return files.Reason(err)
		}
	}
	return nil
}

// line reads one line and returns its beginning, with its line break if all of it is there, and its
// size. Of a line with more bytes than lines are counted in it reads no more than these.
func (r *lineReader) line() (kept []byte, size int, err error) {
	for {
		part, err := r.in.ReadSlice('\n')
		size += len(part)
		if room := maxLine + utf8.UTFMax - len(kept); room > 0 {
			kept = append(kept, part[:min(room, len(part))]...)
		}
		switch {
		case !errors.Is(err, bufio.ErrBufferFull):
			return kept, size, err
		case size >= maxScan:
			return kept, size, nil
		}
	}
}

// take adds the present line to the output if it is wanted.
func (r *lineReader) take(kept []byte, size int) {
	if r.total < r.start || r.end > 0 && r.total > r.end || r.full {
		return
	}
	line := string(kept)
	most := min(maxLine, r.room/2)
	cut := size > most+1
	if cut {
		least := "" // the rest was not read
		if size >= maxScan {
			least = "at least "
		}
		line = fmt.Sprintf("%s [cut: the line has %s%d bytes]\n", brief.Prefix(line, most), least, size)
	}
	if r.out.Len()+len(line) > r.room {
		r.full = true
		return
	}
	if cut {
		r.cutOff++
	}
	r.out.WriteString(line)
	r.last = r.total
}

// text returns what was read, with the notes about it as last lines.
func (r *lineReader) text() string {
	raw := r.out.String()
	text := brief.UTF8(raw)
	var notes []string
	total := fmt.Sprint(r.total)
	if !r.counted {
		total = "more than " + total
	}
	switch {
	case r.total == 0:
		notes = append(notes, "[empty file]")
	case r.full:
		notes = append(notes, fmt.Sprintf("[lines %d-%d of %s: go on with start_line = %d]", r.start, r.last, total, r.last+1))
	case r.start > 1 || r.last < r.total || !r.counted:
		notes = append(notes, fmt.Sprintf("[lines %d-%d of %s]", r.start, r.last, total))
	}
	if r.cutOff > 0 {
		notes = append(notes, fmt.Sprintf("[%s cut]", brief.Count(r.cutOff, "long line")))
	}
	if text != raw {
		notes = append(notes, "[bytes that are no UTF-8 are shown as \uFFFD]")
	}
	if len(notes) > 0 && text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + strings.Join(notes, "\n")
}
