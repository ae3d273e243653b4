package query

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/tools/files"
)

// A draft is a request that is being written in an editor. It is in the state folder as
//
//	drafts/<hash of the workspace>/<n>/request.md
//
// until it was answered, so that it survives an editor or a provider that fails. The jp whose user
// writes it holds a lock on the folder n. A draft without a lock is offered to the next --edit in
// this workspace.
type draft struct {
	dir  *os.File // locked
	path string
	left time.Time // time of the last change of an earlier draft; zero = it is new
}

// maxDrafts bounds the number of drafts of one workspace.
const maxDrafts = 32

// maxDraft bounds a request, in bytes, as stdin is.
const maxDraft = console.StdinMax

// takeDraft returns a new draft. With again it first looks for an earlier draft of the workspace
// that nobody is writing.
func takeDraft(con *console.Console, workspace string, again bool) (*draft, error) {
	state := con.StateDir()
	if state == "" {
		return nil, exit.Usagef("--edit: there is no home folder to keep the draft in").WithHint("set HOME or XDG_STATE_HOME")
	}
	sum := sha256.Sum256([]byte(workspace))
	top := filepath.Join(state, "drafts", hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(top, 0o700); err != nil {
		return nil, fmt.Errorf("draft: %w", err)
	}
	var fresh *draft
	for n := 1; n <= maxDrafts; n++ {
		d, err := lockDraft(filepath.Join(top, strconv.Itoa(n)), fresh == nil)
		switch {
		case err != nil:
			return nil, fmt.Errorf("draft: %w", err)
		case d == nil:
		case !d.left.IsZero() && !again:
			d.release()
		case !d.left.IsZero() && d.unfit() != nil:
			con.Note("%v: it is not offered again; edit or remove it", d.unfit())
			d.release()
		case !d.left.IsZero():
			if fresh != nil {
				fresh.drop()
			}
			return d, nil
		default:
			fresh = d
		}
	}
	if fresh == nil {
		return nil, &exit.Error{Code: "busy", Status: exit.Busy, Msg: fmt.Sprintf("draft: %d requests are being composed in this workspace", maxDrafts)}
	}
	return fresh, nil
}

// lockDraft locks the draft in dir; nil if somebody is writing it, or if there is none and none is
// to be made.
func lockDraft(dir string, make bool) (*draft, error) {
	d := &draft{path: filepath.Join(dir, "request.md")}
	if make {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, err
		}
	}
	var err error
	if d.dir, err = os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(d.dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		var held, there os.FileInfo
		if held, err = d.dir.Stat(); err == nil {
			there, err = os.Stat(dir)
		}
		if err == nil && !os.SameFile(held, there) {
			err = os.ErrNotExist
		}
	}
	if err != nil {
		_ = d.dir.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, os.ErrNotExist) {
			return nil, nil // somebody is writing it, or has just sent it
		}
		return nil, err
	}
	if info, err := os.Lstat(d.path); err == nil && info.Mode().IsRegular() {
		d.left = info.ModTime()
	}
	return d, nil
}

// unfit returns the error that keeps the text of the draft from being a request.
func (d *draft) unfit() error {
	_, err := d.read()
	return err
}

// read returns what the draft holds.
func (d *draft) read() ([]byte, error) {
	switch info, err := os.Stat(d.path); {
	case err != nil:
		return nil, fmt.Errorf("draft: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("draft %s: is not a regular file", d.path)
	case info.Size() > maxDraft:
		return nil, fmt.Errorf("draft %s: is larger than %d MiB", d.path, maxDraft>>20)
	}
	b, err := os.ReadFile(d.path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("draft: %w", err)
	case !utf8.Valid(b):
		return nil, fmt.Errorf("draft %s: is not UTF-8 text", d.path)
	}
	return b, nil
}

// text returns the text of an earlier draft without the part below the scissors.
func (d *draft) text() (string, error) {
	b, err := d.read()
	if err != nil {
		return "", err
	}
	text, _, _ := strings.Cut("\n"+string(b), "\n"+scissors)
	return strings.TrimSpace(text), nil
}

// write replaces the text of the draft, whole or not at all. If an editor put a link or a pipe in
// its place, write removes that.
func (d *draft) write(text string) error {
	if info, err := os.Lstat(d.path); err == nil && !info.Mode().IsRegular() {
		if err := os.RemoveAll(d.path); err != nil {
			return fmt.Errorf("draft: %w", err)
		}
	}
	if err := files.Replace(d.path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("draft: %w", err)
	}
	return nil
}

// watch returns a function that reports whether the draft was saved since: its file was replaced or
// written.
func (d *draft) watch() (saved func() bool, err error) {
	// Time stamps are coarse: an editor may save within one tick.
	if err := os.Chtimes(d.path, time.Time{}, time.Now().Add(-time.Minute)); err != nil {
		return nil, fmt.Errorf("draft: %w", err)
	}
	before, err := os.Stat(d.path)
	if err != nil {
		return nil, fmt.Errorf("draft: %w", err)
	}
	return func() bool {
		now, err := os.Stat(d.path)
		return err != nil || !os.SameFile(before, now) || now.Size() != before.Size() || !now.ModTime().Equal(before.ModTime())
	}, nil
}

// drop removes the draft, and files that an editor put beside it.
func (d *draft) drop() {
	_ = os.RemoveAll(filepath.Dir(d.path))
	d.release()
}

// release unlocks the draft.
func (d *draft) release() { _ = d.dir.Close() }
