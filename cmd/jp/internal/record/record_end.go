package record

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/model/script"
	"jp/cmd/jp/internal/version"
	"jp/cmd/jp/internal/wording"
	"jp/tools/files"
)

// End writes the recording, or compares the replay with it, when all runs of the tree have ended.
// ended is the error of the first run, and ctx its context.
func (t *Tape) End(ctx context.Context, ended error) error {
	switch {
	case t == nil || !t.main:
		return ended
	case t.replay != nil:
		return t.compare(ctx, ended)
	}
	if err := t.write(ctx); err != nil {
		return errors.Join(ended, err)
	}
	return ended
}

// write writes the recording.
func (t *Tape) write(ctx context.Context) error {
	fail := func(err error) error {
		return fmt.Errorf("--record %s: nothing was written: %w", t.named, files.Reason(err))
	}
	entries, err := parts[script.Entry](t)
	if err != nil {
		return fail(err)
	}
	about := script.Recorded{Version: version.Version}
	if ctx.Err() != nil {
		about.Stopped = context.Cause(ctx).Error()
		remaining := entries[:0]
		for _, e := range entries {
			if !e.Hang { // a reply that the stop cut off
				remaining = append(remaining, e)
			}
		}
		entries = remaining
	}
	if len(entries) == 0 {
		t.con.Note("nothing was recorded: no model has answered")
		return nil
	}
	runs := map[string]bool{}
	cover, err := covers(t.con, t.ws)
	if err != nil {
		return fail(err)
	}
	for i := range entries {
		entries[i].Redact(cover.clean)
		runs[entries[i].Run] = true
	}
	ws, err := t.ws.Root()
	if err != nil {
		return fail(err)
	}
	data, err := script.Compile(entries, ws, about)
	if err == nil {
		_, err = script.ParseRecording(t.record, data) // a recording must be readable again
	}
	if err == nil {
		err = files.MakeIn(t.into, filepath.Base(t.record), data, 0o600)
	}
	if err != nil {
		return fail(err)
	}
	for _, name := range cover.found() {
		t.con.Warn("--record: the value of %s was in a request or reply; the recording has [%s] instead", name, name)
	}
	replies := wording.Either(len(entries) == 1, "1 reply", fmt.Sprintf("%d replies", len(entries)))
	t.con.Note("recorded %s of %s in %s%s", replies, wording.Plural(len(runs), "run"), t.named,
		wording.Either(about.Stopped != "", ", up to where it was stopped", ""))
	return nil
}

// compare returns an error that says where the replay differs from the recording. It replaces the
// error of the run, because the difference may have caused that.
func (t *Tape) compare(ctx context.Context, ended error) error {
	if ctx.Err() != nil {
		return ended
	}
	steps, err := parts[step](t)
	if err != nil {
		return errors.Join(ended, fmt.Errorf("--replay: %w", err))
	}
	used := map[int]bool{}
	strays, deepest := "", -1
	for _, s := range steps {
		used[s.Rule] = true
		level := len(strings.FieldsFunc(s.Run, func(r rune) bool { return r == '/' }))
		if s.Strays != "" && level > deepest { // a sub-agent that strays makes its caller stray
			strays, deepest = s.Strays, level
		}
	}
	if strays == "" {
		if ended != nil && len(steps) == 0 {
			return ended // the run did not get to the difference
		}
		unused := t.replay.Unused(used)
		if len(unused) == 0 {
			return ended
		}
		strays = "this run is not as recorded: it ended without what was recorded in " + unused[0]
		if n := len(unused) - 1; n > 0 {
			strays += fmt.Sprintf(", and %s more", wording.Plural(n, "rule"))
		}
	}
	return notAsRecorded("%s: %s", t.named, strays)
}

// notAsRecorded returns the error that says where a replay differs.
func notAsRecorded(format string, args ...any) error {
	f := &exit.Error{Code: "not_as_recorded", Status: exit.Failed, Msg: fmt.Sprintf(format, args...)}
	return f.WithHint("if you want the change, record it again or edit the rule")
}

// maxParts is the most bytes of lines that are made into a recording, which may have an eighth of
// that: a line of a short reply takes some times as much as its rule.
const maxParts = 64 << 20

// parts reads what all processes of the tree have recorded. A line that its process did not finish
// is left out.
func parts[T any](t *Tape) (all []T, err error) {
	if t.dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return nil, err
	}
	size := 0
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), partName) {
			continue
		}
		f, err := os.Open(filepath.Join(t.dir, e.Name()))
		if err != nil {
			return nil, err
		}
		r := bufio.NewReader(f)
		for {
			line, err := r.ReadBytes('\n')
			if err == io.EOF {
				break
			}
			if size += len(line); err == nil && size > maxParts {
				err = script.ErrTooLarge
			}
			var v T
			if err == nil {
				err = json.Unmarshal(line, &v)
			}
			if err != nil {
				_ = f.Close()
				return nil, err
			}
			all = append(all, v)
		}
		_ = f.Close()
	}
	return all, nil
}
