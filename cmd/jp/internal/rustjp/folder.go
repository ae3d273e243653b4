// Package rustjp reads the conversations that JP, the program in Rust, stores in .jp/conversations.
// Each is a folder, named by an id and maybe a title, with events.json and maybe metadata.json and
// base_config.json. The folder .archive has more of them.
//
// The package returns the pieces of an export. It keeps what it does not understand as it is, and
// counts it in Kept. It follows no symbolic link and reads only regular files.
package rustjp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"jp/convstore"
	"jp/convstore/archive"
	"jp/tools/files"
	"jp/tools/jsondoc"
)

// Kept counts what was kept without being understood.
type Kept struct {
	Opaque  map[string]int // events, by type
	Text    int            // texts that should be base64 and are not; unchanged
	Times   int            // timestamps of unknown form; the event has the time of the one before it
	LeftOut []string       // files and folders that belong to no conversation, and were not read
}

const (
	fileEvents   = "events.json"
	fileMetadata = "metadata.json"
	fileConfig   = "base_config.json"
	dirArchive   = ".archive"
)

// maxSmall bounds the files that are read whole, in bytes.
const maxSmall = 64 << 20

// Pieces yields the conversations of a folder: .jp/conversations itself, a workspace that has it,
// or a single conversation. It ends at the first error, which is a *archive.ImportError unless a
// file cannot be read. It adds to kept.
func Pieces(dir string, kept *Kept) iter.Seq2[archive.Piece, error] {
	return func(yield func(archive.Piece, error) bool) {
		f := folder{dir: dir, kept: kept, yield: yield}
		if kept.Opaque == nil {
			kept.Opaque = make(map[string]int)
		}
		if err := f.read(); err != nil && err != errEnough {
			yield(archive.Piece{}, err)
		}
	}
}

// errEnough ends the reading when nobody wants more.
var errEnough = errors.New("enough")

type folder struct {
	dir   string
	root  *os.Root
	kept  *Kept
	yield func(archive.Piece, error) bool
	found int
}

func (f *folder) wrong(name string, err error) error {
	return &archive.ImportError{Pos: filepath.Join(f.dir, name), Err: files.Reason(err)}
}

func (f *folder) read() error {
	if sub := filepath.Join(f.dir, ".jp", "conversations"); isDir(sub) {
		f.dir = sub
	}
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return f.wrong("", err)
	}
	defer func() { _ = root.Close() }()
	f.root = root
	if info, err := root.Lstat(fileEvents); err == nil && info.Mode().IsRegular() {
		full, err := filepath.Abs(f.dir)
		if err != nil {
			return err
		}
		id, ok := idOf(filepath.Base(full))
		if !ok {
			return f.wrong("", errors.New("the name of the folder does not begin with an id"))
		}
		return f.conversation(".", id, false)
	}
	if err := f.conversations(".", false); err != nil {
		return err
	}
	if f.found == 0 {
		return f.wrong("", errors.New("no conversation of JP in this folder"))
	}
	return nil
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// idOf reads the digits that the name of a conversation's folder begins with.
func idOf(name string) (convstore.ID, bool) {
	name = strings.TrimPrefix(name, "jp-c")
	digits := name[:len(name)-len(strings.TrimLeft(name, "0123456789"))]
	n, err := strconv.ParseInt(digits, 10, 64)
	return convstore.ID(n), err == nil && n > 0
}

// names lists a folder, sorted.
func (f *folder) names(name string) ([]string, error) {
	dir, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, f.wrong(name, err)
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, f.wrong(name, err)
	}
	slices.Sort(names)
	return names, nil
}

func (f *folder) conversations(dir string, archived bool) error {
	names, err := f.names(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		name := path.Join(dir, n)
		info, err := f.root.Lstat(name)
		if err != nil {
			return f.wrong(name, err)
		}
		id, ok := idOf(n)
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			return f.wrong(name, errors.New("is a symbolic link"))
		case info.IsDir() && n == dirArchive && !archived:
			err = f.conversations(name, true)
		case info.IsDir() && ok:
			err = f.conversation(name, id, archived)
		default:
			f.kept.LeftOut = append(f.kept.LeftOut, filepath.Join(f.dir, name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// metadata is what is understood of metadata.json.
type metadata struct {
	Title      string          `json:"title"`
	ArchivedAt string          `json:"archived_at"`
	PinnedAt   string          `json:"pinned_at"`
	ExpiresAt  string          `json:"expires_at"`
	Labels     json.RawMessage `json:"labels"`
}

// conversation reads one conversation.
func (f *folder) conversation(dir string, id convstore.ID, archived bool) error {
	f.found++
	names, err := f.names(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if n != fileEvents && n != fileMetadata && n != fileConfig {
			f.kept.LeftOut = append(f.kept.LeftOut, filepath.Join(f.dir, dir, n))
		}
	}
	x := &archive.Exported{ID: id}
	pos := filepath.Join(f.dir, dir)
	if slices.Contains(names, fileMetadata) {
		if err := f.metadata(path.Join(dir, fileMetadata), x); err != nil {
			return err
		}
	}
	if slices.Contains(names, fileConfig) {
		name := path.Join(dir, fileConfig)
		if x.ConfigBytes, err = f.small(name); err != nil {
			return err
		}
		if err := f.valid(name, x.ConfigBytes); err != nil {
			return err
		}
	}
	if archived && x.ArchivedAt.IsZero() {
		x.ArchivedAt = time.UnixMilli(int64(id) * 100)
	}
	if !f.yield(archive.Piece{Pos: pos, Conversation: x}, nil) {
		return errEnough
	}
	if !slices.Contains(names, fileEvents) {
		return nil
	}
	return f.events(path.Join(dir, fileEvents), id)
}

func (f *folder) metadata(name string, x *archive.Exported) error {
	raw, err := f.small(name)
	if err == nil {
		err = f.valid(name, raw)
	}
	if err != nil {
		return err
	}
	var m metadata
	if err := json.Unmarshal(raw, &m); err != nil {
		return f.wrong(name, jsondoc.Explain(err))
	}
	x.Title, x.Pinned = m.Title, m.PinnedAt != ""
	for at, text := range map[*time.Time]string{&x.ArchivedAt: m.ArchivedAt, &x.ExpiresAt: m.ExpiresAt} {
		if text == "" {
			continue
		}
		t, ok := parseTime(text)
		if !ok {
			f.kept.Times++
		}
		*at = t
	}
	if len(m.Labels) > 0 && json.Unmarshal(m.Labels, &x.Labels) != nil {
		x.Labels = nil // of another form: it is among the rest
	}
	x.Extra, err = json.Marshal(map[string]json.RawMessage{"metadata": raw})
	return err
}

// valid reports where a text is no JSON.
func (f *folder) valid(name string, raw []byte) error {
	var v json.RawMessage
	err := json.Unmarshal(raw, &v)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		err = fmt.Errorf("byte %d: %w", syntax.Offset, err)
	}
	if err != nil {
		return f.wrong(name, err)
	}
	return nil
}

// open opens a regular file, which is no link.
func (f *folder) open(name string) (*os.File, error) {
	file, _, err := files.OpenRegular(f.root, name, os.O_RDONLY, files.NoLink)
	if err != nil {
		return nil, f.wrong(name, err)
	}
	return file, nil
}

// small reads a file whole.
func (f *folder) small(name string) ([]byte, error) {
	b, _, err := files.ReadRegular(f.root, name, maxSmall, files.NoLink)
	if err == nil && jsondoc.Crowded(b, archive.MaxValues) {
		err = fmt.Errorf("more than %d values", archive.MaxValues)
	}
	if err != nil {
		return nil, f.wrong(name, err)
	}
	return b, nil
}
