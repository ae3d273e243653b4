package batch

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/convstore"
	"jp/tools/files"
)

// earlierRow is a row that is ok in the file of --resume.
type earlierRow struct {
	at, size int64
	id       convstore.ID
	reused   bool // whether the answer was there before: other rows may have the same one
}

// maxEarlier bounds a row in the file of --resume, in bytes: six for each of its line and its
// answer, and what is in each row.
const maxEarlier = 6*(maxLine+maxRow) + 1<<20

// readRows reads the output of an earlier run, and returns the parents of the conversations that
// its rows name, but for those whose answers were reused.
func (b *batch) readRows(ctx context.Context, path string) (parents []convstore.ID, err error) {
	if path == "" {
		return nil, exit.Usagef("--resume: names no file and no conversation")
	}
	e := b.earlier
	file, info, err := files.OpenRegular(files.Disk{}, b.env.Con.Abs(path), os.O_RDONLY, 0)
	if err != nil {
		return nil, exit.Usagef("--resume %s: %v", path, files.Reason(err))
	}
	e.file = file
	if out, ok := b.env.Con.Env.Stdout.(*os.File); ok {
		if now, err := out.Stat(); err == nil && os.SameFile(info, now) {
			return nil, exit.Usagef("--resume %s: is the file that stdout goes to", path).WithHint("write to another file: the rows that are ok are repeated there")
		}
	}
	var lenders []convstore.ID // parents of the conversations whose answers were reused
	in := &io.LimitedReader{R: e.file}
	dec := json.NewDecoder(in)
	for index := 0; ; index++ {
		var raw json.RawMessage
		in.N = maxEarlier
		err := dec.Decode(&raw)
		if err != nil && in.N == 0 {
			err = fmt.Errorf("more than %d MiB", maxEarlier>>20)
		} else if err != nil && endsInZeros(io.NewSectionReader(e.file, dec.InputOffset(), info.Size())) {
			b.env.Con.Note("--resume %s: ends in zeros, as after a power cut: row %d, where they begin, counts as cut off", path, index+1)
			err = io.ErrUnexpectedEOF
		}
		switch {
		case err == io.EOF, err == io.ErrUnexpectedEOF: // a row that was cut off counts as none
			return parents, b.mark(ctx, lenders)
		case err != nil:
			bad := exit.Usagef("--resume %s: row %d: %v", path, index+1, err)
			if index == 0 {
				return nil, bad.WithHint("the file has to be what `jp batch` wrote to stdout")
			}
			return nil, bad.WithHint("`head -n %d` writes the rows before it to a file to resume from; those after it are asked again", index)
		}
		var row struct {
			ID     *string          `json:"conversation_id"`
			Status string           `json:"status"`
			Reused bool             `json:"reused"`
			Made   *json.RawMessage `json:"reduced"`
		}
		if err := json.Unmarshal(raw, &row); err != nil || row.Status == "" {
			return nil, exit.Usagef("--resume %s: row %d: is not a row of a batch", path, index+1).WithHint("it reads JSON Lines, what `jp batch` writes without -F json")
		}
		if row.Made != nil { // it is made again of all rows
			index--
			continue
		}
		e.last = index + 1
		ok := convstore.State(row.Status) == convstore.StateOK
		conv, err := b.named(ctx, row.ID)
		if err != nil && ok {
			return nil, exit.Usagef("--resume %s: row %d: %v", path, index+1, err)
		}
		if err == nil && !row.Reused {
			e.named[conv.ID] = true
		}
		switch {
		case err != nil || conv.Parent == 0:
		case row.Reused && !slices.Contains(lenders, conv.Parent):
			lenders = append(lenders, conv.Parent)
		case !row.Reused && !slices.Contains(parents, conv.Parent):
			parents = append(parents, conv.Parent)
		}
		if ok {
			e.rows[index] = earlierRow{dec.InputOffset() - int64(len(raw)), int64(len(raw)), conv.ID, row.Reused}
		}
	}
}

// endsInZeros reports whether r has a zero byte, and only zero bytes after the first one.
func endsInZeros(r io.Reader) bool {
	zeros := false
	for in := bufio.NewReader(r); ; {
		c, err := in.ReadByte()
		switch {
		case err != nil:
			return zeros && err == io.EOF
		case c == 0:
			zeros = true
		case zeros:
			return false
		}
	}
}

// named returns the conversation that a row names.
func (b *batch) named(ctx context.Context, word *string) (convstore.Conversation, error) {
	if word == nil {
		return convstore.Conversation{}, errors.New("names no conversation")
	}
	id, err := convstore.ParseID(*word)
	if err != nil {
		return convstore.Conversation{}, err
	}
	return b.session.Store.Get(ctx, id)
}

// repeat writes the row of a query that is answered.
func (b *batch) repeat(it delegate.Item) error {
	b.earlier.mu.Lock()
	del, ok := b.earlier.answers[it.Number-1]
	row := b.earlier.rows[it.Number-1]
	b.earlier.mu.Unlock()
	if ok {
		ctx := context.Background() // it is read even when the batch is being stopped
		row, err := delegate.Recorded(ctx, b.view, del, it.Earlier, maxRow)
		if err != nil {
			return fmt.Errorf("--resume: %w", err)
		}
		return b.add(it, row.For(it))
	}
	b.ok++
	raw, err := b.earlier.raw(row)
	if err != nil {
		return err
	}
	if err := b.keepEarlier(it, row, raw); err != nil {
		return err
	}
	return b.rows.Add(json.RawMessage(raw))
}

// kept returns the row r of a query that could not go on, with the part of an answer that it has
// from before.
func (b *batch) kept(it delegate.Item, r delegate.Row) (delegate.Row, error) {
	b.earlier.mu.Lock()
	del, ok := b.earlier.parts[it.Number-1]
	b.earlier.mu.Unlock()
	if !ok {
		return r, nil
	}
	ctx := context.Background() // as in repeat
	row, err := delegate.Recorded(ctx, b.view, del, delegate.Used{}, maxRow)
	if err != nil {
		return r, fmt.Errorf("--resume: %w", err)
	}
	row.TokensUsed, row.CostUSD, row.Calls, row.Usage = r.TokensUsed, r.CostUSD, r.Calls, r.Usage
	return row.For(it), nil
}

// raw returns the JSON of a row of the file.
func (e *earlier) raw(row earlierRow) (json.RawMessage, error) {
	raw := make([]byte, row.size)
	if _, err := e.file.ReadAt(raw, row.at); err != nil {
		return nil, fmt.Errorf("--resume: %w", err)
	}
	return raw, nil
}
