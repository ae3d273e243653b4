package convstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
	"jp/convstore/internal/page"
)

// holey returns a store of which most has been removed, and an id that is left.
func holey(t testing.TB) (*Store, ID) {
	t.Helper()
	s, err := Open(filepath.Join(memoryDir(t), "store"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	keep := mustCreate(t, s, New{Title: "keep", Config: Config{JSON: []byte("{}"), Tools: []string{"a"}}}).ID
	l := mustLock(t, s, keep)
	mustAppend(t, l, TurnStart{}, UserMessage{Text: "kept"}, TurnEnd{State: StateOK})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	gone := mustCreate(t, s, New{}).ID
	l = mustLock(t, s, gone)
	for range 10 {
		mustAppend(t, l, UserMessage{Text: strings.Repeat("x", 1<<20)})
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Remove(t.Context(), gone, RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	return s, keep
}

// TestMuchIsFree: who writes to a store in which much is free is told, once, and nobody is told who
// reads or compacts it.
func TestMuchIsFree(t *testing.T) {
	s, keep := holey(t)
	for _, tt := range []struct {
		what string
		free int64
		use  func(s *Store) error
		want int
	}{
		{"reading", 8 << 20, func(s *Store) error { _, err := s.Get(t.Context(), keep); return err }, 0},
		{"writing twice", 8 << 20, func(s *Store) error { mustCreate(t, s, New{}); mustCreate(t, s, New{}); return nil }, 1},
		{"writing where less is free", 16 << 20, func(s *Store) error { mustCreate(t, s, New{}); return nil }, 0},
		{"compacting", 8 << 20, func(s *Store) error { _, _, err := s.Compact(t.Context()); return err }, 0},
	} {
		var notices []string
		s := openStoreIn(t, s.f.Dir, Options{Notice: func(text string) { notices = append(notices, text) }})
		s.f.Free = tt.free
		if err := tt.use(s); err != nil {
			t.Errorf("%s: %v", tt.what, err)
		}
		if len(notices) != tt.want {
			t.Errorf("%s: notices %q, want %d", tt.what, notices, tt.want)
		}
	}
}

// TestCompact: the free space goes, nothing else does, ids and delegations' numbers go on where
// they were, and whoever waits meanwhile goes on with the new file.
func TestCompact(t *testing.T) {
	s, keep := holey(t)
	space, err := s.Space(t.Context())
	if err != nil || !space.Worth() {
		t.Fatalf("Space = %+v, %v, want much that is free", space, err)
	}
	if err := os.WriteFile(s.f.Path(file.SmallerName), []byte("left by a crash"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := dump(t, s)
	var others sync.WaitGroup
	for range 8 {
		others.Go(func() {
			if _, err := s.Create(context.Background(), New{}); err != nil {
				t.Error(err)
			}
		})
	}
	before, after, err := s.Compact(t.Context())
	others.Wait()
	if err != nil || before.Size < 10<<20 || after.Size > 1<<20 || after.Free > before.Free {
		t.Errorf("Compact = %+v, %+v, %v", before, after, err)
	}
	for _, c := range mustList(t, s.View, Filter{}) {
		if c == keep {
			continue
		}
		if _, err := s.Remove(t.Context(), c, RemoveOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	got := dump(t, s)
	delete(got, "meta last")
	delete(want, "meta last")
	if len(got) != len(want) {
		t.Errorf("%d entries, want %d", len(got), len(want))
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%q = %q, want %q", k, got[k], v)
		}
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	// Again, until it is no smaller: then the file stays.
	for {
		old, err := os.Stat(s.Path())
		if err != nil {
			t.Fatal(err)
		}
		before, after, err := s.Compact(t.Context())
		if err != nil || after.Size > before.Size {
			t.Fatalf("Compact = %+v, %+v, %v", before, after, err)
		}
		now, err := os.Stat(s.Path())
		if err != nil {
			t.Fatal(err)
		}
		if stayed := os.SameFile(old, now); stayed != (after.Size == before.Size) {
			t.Errorf("Compact = %+v, %+v, and the file stayed: %v", before, after, stayed)
		}
		if after == before {
			break
		}
	}
	for _, name := range filesIn(t, s.f.Dir) {
		if filepath.Base(name) == file.SmallerName {
			t.Error("the unfinished file was left behind")
		}
	}
}

// dump returns every entry of the file.
func dump(t testing.TB, s *Store) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := s.f.read(t.Context(), func(tx *tx) error {
		for n, name := range db.BucketNames {
			if err := tx.Prefixed(db.BucketNumber(n), nil, func(k, v []byte) error {
				all[name+" "+string(k)] = string(v)
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestCompactRefuses(t *testing.T) {
	ctx := t.Context()
	s, err := Open(filepath.Join(memoryDir(t), "store"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if before, after, err := s.Compact(ctx); err != nil || before != after || before != (Space{}) {
		t.Errorf("Compact of nothing = %v, %v, %v", before, after, err)
	}
	if _, err := os.Stat(s.Path()); !errors.Is(err, fs.ErrNotExist) {
		t.Error("compacting made a store")
	}
	sample := sampleStore(t)
	// A page in the middle that makes no sense: nothing is thrown away.
	broken := bytes.Clone(sample)
	page := os.Getpagesize()
	for i := 8; i < len(broken)/page; i++ {
		copy(broken[i*page+8:], "\xff\xff")
	}
	s = storeOf(t, broken)
	var damaged *DamagedError
	if _, _, err := s.Compact(ctx); !errors.As(err, &damaged) {
		t.Errorf("Compact = %v, want a *DamagedError", err)
	}
	if !bytes.Equal(mustRead(t, s.Path()), broken) {
		t.Error("the damaged file was changed")
	}
	// A freelist that names a page in use, as a lost write leaves it.
	{
		wrong := freeInUse(t, sample)
		s = storeOf(t, wrong)
		if err := s.Check(ctx); !errors.As(err, &damaged) {
			t.Errorf("Check of a freelist that names a page in use = %v, want a *DamagedError", err)
		}
		if _, _, err := s.Compact(ctx); !errors.As(err, &damaged) {
			t.Errorf("Compact with such a freelist = %v, want a *DamagedError", err)
		}
		if !bytes.Equal(mustRead(t, s.Path()), wrong) {
			t.Error("the file with such a freelist was changed")
		}
	}
	// A page that says it has fewer entries than it has: bbolt does not see the others.
	_, _, all, err := Rooms.Rescue(ctx, storeOf(t, sample), func(error) {})
	mustNot(t, err)
	refused := 0
	for i := 2; i < len(sample)/page; i++ {
		fewer := bytes.Clone(sample)
		count := fewer[i*page+10:]
		binary.NativeEndian.PutUint16(count, binary.NativeEndian.Uint16(count)/2)
		s = storeOf(t, fewer)
		if _, _, err := s.Compact(ctx); errors.As(err, &damaged) {
			refused++
		}
		if _, _, events, err := Rooms.Rescue(ctx, s, func(error) {}); err != nil || events != all {
			t.Errorf("page %d with half of its entries, compacted: %d events of %d, %v", i, events, all, err)
		}
	}
	if refused == 0 {
		t.Error("no page was refused")
	}
	// What needs no compacting is not written to.
	s = storeOf(t, sample)
	for range 2 {
		if _, _, err := s.Compact(ctx); err != nil {
			t.Fatal(err)
		}
	}
	compacted := mustRead(t, s.Path())
	if before, after, err := s.Compact(ctx); err != nil || before != after || !bytes.Equal(mustRead(t, s.Path()), compacted) {
		t.Errorf("Compact of a compact store = %v, %v, %v, or it was written to", before, after, err)
	}
	// A stopped one leaves everything as it was.
	s = storeOf(t, sample)
	err = s.f.Session(ctx, true, func(h *db.Handle) error {
		stopped, stop := context.WithCancel(ctx)
		stop()
		_, err := s.f.Rewrite(stopped, h, Space{Size: 1 << 62})
		return err
	})
	if !errors.Is(err, context.Canceled) || !bytes.Equal(mustRead(t, s.Path()), sample) {
		t.Errorf("a stopped rewrite: %v", err)
	}
}

// freeInUse returns a store whose freelist names its root page in place of the first free one.
func freeInUse(t *testing.T, sample []byte) []byte {
	t.Helper()
	wrong := bytes.Clone(sample)
	p, err := page.Open(bytes.NewReader(wrong), int64(len(wrong)))
	if err != nil || p.Free == 0 {
		t.Fatalf("the sample has %+v free, %v, want some", p, err)
	}
	binary.NativeEndian.PutUint64(wrong[p.Freelist*p.PageSize+page.HeaderSize:], p.Root)
	return wrong
}

func TestBackup(t *testing.T) {
	ctx := t.Context()
	s, keep := holey(t)
	path := filepath.Join(memoryDir(t), "backup.db")
	if err := s.Backup(ctx, path); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(mustRead(t, path), mustRead(t, s.Path())) {
		t.Error("the copy differs")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v, want mode 0600", info.Mode(), err)
	}
	absent := filepath.Join(filepath.Dir(path), "absent", "x")
	if err := s.Backup(ctx, absent); err == nil || strings.Contains(err.Error(), ".x.") || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("into no folder: %v, want an error that names no temporary file", err)
	}
	if err := s.Backup(ctx, path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Backup over a file = %v, want fs.ErrExist", err)
	}
	if got := filesIn(t, filepath.Dir(path)); len(got) != 1 {
		t.Errorf("files beside the backup: %v", got)
	}
	copied := storeOf(t, mustRead(t, path))
	if got := mustGet(t, copied.View, keep); got.Title != "keep" {
		t.Errorf("in the copy: %+v", got)
	}
	if err := copied.Check(ctx); err != nil {
		t.Error(err)
	}
	empty, err := Open(filepath.Join(memoryDir(t), "none"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := empty.Backup(ctx, path+"2"); !errors.Is(err, ErrNoStore) {
		t.Errorf("Backup of nothing = %v, want ErrNoStore", err)
	}
	if err := s.Backup(ctx, filepath.Join(path, "below a file")); err == nil {
		t.Error("a backup below a file succeeded")
	}
	// One of an earlier schema is copied as it is: before it is brought to this one.
	setSchema(t, copied.Path(), schemaVersion-1)
	if err := copied.Backup(ctx, path+"3"); err != nil || !bytes.Equal(mustRead(t, path+"3"), mustRead(t, copied.Path())) {
		t.Errorf("Backup of an earlier schema = %v, or it differs", err)
	}
	setSchema(t, copied.Path(), schemaVersion+1)
	if err := copied.Backup(ctx, path+"4"); !errors.As(err, new(*SchemaError)) {
		t.Errorf("Backup of a later schema = %v, want a *SchemaError", err)
	}
}

// TestBackupBesideWriters: while a backup is copied others write. What has changed since is copied
// too, and the backup is as the store is at the one moment in which it is read with its lock held.
// Nothing has a name before it is complete.
func TestBackupBesideWriters(t *testing.T) {
	for _, writes := range []int{0, 1, file.SnapshotRounds + 2} { // between what is copied ahead and the lock
		s, keep := holey(t)
		l := mustLock(t, s, keep)
		dir := memoryDir(t)
		copied, err := os.CreateTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = copied.Close() }()
		var moment []byte
		calls := 0
		if err := s.f.CopyTo(t.Context(), copied, func(use func(*os.File) error) error {
			if calls++; calls <= writes {
				// More than is kept in memory, when it is many times.
				mustAppend(t, l, UserMessage{Text: strings.Repeat("w", 1<<20)})
				if calls == 2 {
					if _, _, err := s.Compact(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			return s.f.LockSound(t.Context())(func(file *os.File) error {
				moment = mustRead(t, s.Path())
				return use(file)
			})
		}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(mustRead(t, copied.Name()), moment) {
			t.Errorf("after %d writes the copy differs from the store as it was when its lock was held", writes)
		}
		mustAppend(t, l, UserMessage{Text: "later"})
		mustNot(t, l.Close())
	}
	s, _ := holey(t)
	dir := memoryDir(t)
	file, name, err := file.Nameless(dir, "pattern")
	if err != nil {
		t.Fatal(err)
	}
	mustNot(t, s.f.CopyTo(t.Context(), file, s.f.LockAny(t.Context())))
	if left := filesIn(t, dir); runtime.GOOS == "linux" && len(left) != 0 {
		t.Errorf("what a kill would leave: %v", left)
	}
	mustNot(t, name(filepath.Join(dir, "backup.db")))
	if err := name(filepath.Join(dir, "backup.db")); !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("naming it again = %v", err)
	}
	if !bytes.Equal(mustRead(t, filepath.Join(dir, "backup.db")), mustRead(t, s.Path())) {
		t.Error("the named file differs from the store")
	}
	mustNot(t, file.Close())
}

// TestSalvage: of a sound store everything is found; of one with a broken page everything that is
// not on it; of noise, nothing and an error.
func TestSalvage(t *testing.T) {
	sample := sampleStore(t)
	read := func(data []byte) (conversations, events, lost int, err error) {
		s := storeOf(t, data)
		_, conversations, events, err = Rooms.Rescue(t.Context(), s, func(error) { lost++ })
		if !bytes.Equal(mustRead(t, s.Path()), data) {
			t.Error("salvaging changed the file")
		}
		return conversations, events, lost, err
	}
	whole := storeOf(t, sample)
	all, allEvents := 0, 0
	list, err := whole.List(t.Context(), Filter{Hidden: true, Archived: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		all++
		allEvents += c.Events
	}
	c, e, lost, err := read(sample)
	if c != all || e != allEvents || lost != 0 || err != nil || all == 0 {
		t.Errorf("of a sound store: %d conversations of %d, %d events of %d, %d lost, %v", c, all, e, allEvents, lost, err)
	}
	page, order := os.Getpagesize(), binary.NativeEndian
	for what, breaks := range map[string]func(p []byte){
		"everything": func(p []byte) { copy(p, bytes.Repeat([]byte{0xff}, len(p))) },
		"half of its entries": func(p []byte) { // their number is at 10
			order.PutUint16(p[10:], order.Uint16(p[10:])/2)
		},
		"all of its entries": func(p []byte) { order.PutUint16(p[10:], 0) },
		"the flags of an entry": func(p []byte) {
			if order.Uint16(p[8:]) == 2 { // a leaf
				p[16+order.Uint16(p[10:])/2*16] ^= 0x20
			}
		},
		"the key of an entry": func(p []byte) {
			first := order.Uint32(p[20:])
			if order.Uint16(p[8:]) == 2 && order.Uint16(p[10:]) > 0 && int(first) < page-32 {
				p[16+first+7] ^= 1 // of a conversation
			}
		},
		"the length of a key": func(p []byte) { // as id it reads as 0
			if order.Uint16(p[8:]) == 2 && order.Uint16(p[10:]) > 0 {
				order.PutUint32(p[16+8:], 3)
			}
		},
	} {
		some := 0
		for i := 2; i < len(sample)/page; i++ {
			broken := bytes.Clone(sample)
			breaks(broken[i*page:][:page])
			c, e, lost, err := read(broken)
			if err != nil || c > all && what != "the key of an entry" || e > allEvents || lost == 0 && (c != all || e != allEvents) {
				t.Errorf("page %d without %s: %d conversations of %d, %d events of %d, %d lost, %v", i, what, c, all, e, allEvents, lost, err)
			}
			if lost > 0 && e > 0 {
				some++
			}
			if strings.HasSuffix(what, "of its entries") && e != allEvents {
				t.Errorf("page %d without %s: %d events of %d", i, what, e, allEvents)
			}
		}
		if some == 0 && what != "the flags of an entry" {
			t.Errorf("no page without %s left anything to salvage", what)
		}
	}
	if c, e, _, err := read(sample[:len(sample)/2]); err != nil || c+e == 0 {
		t.Errorf("of half a file: %d conversations, %d events, %v", c, e, err)
	}
	noMeta := bytes.Clone(sample)
	copy(noMeta, make([]byte, page))
	if _, e, lost, err := read(noMeta); err != nil || e == 0 || lost == 0 {
		t.Errorf("without the first meta: %d events, %d lost, %v", e, lost, err)
	}
	var damaged *DamagedError
	if _, _, _, err := read(make([]byte, 1<<20)); !errors.As(err, &damaged) {
		t.Errorf("of zeros: %v, want a *DamagedError", err)
	}
}
