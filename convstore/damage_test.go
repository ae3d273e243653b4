package convstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/bbolt"

	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
	"jp/convstore/internal/page"
	"jp/convstore/internal/stored"
)

// touchEverything reads all that a store has to say, and writes to it.
func touchEverything(t testing.TB, s *Store) (err error) {
	ctx := t.Context()
	note := func(e error) {
		var notFound *NotFoundError
		if e != nil && !errors.As(e, &notFound) {
			err = errors.Join(err, e)
		}
	}
	list, e := s.List(ctx, Filter{Hidden: true, Archived: true})
	note(e)
	for _, c := range list {
		for _, e := range s.Events(ctx, c.ID, Range{}) {
			note(e)
		}
		_, e := s.Config(ctx, c.ID)
		note(e)
		_, e = s.Delegations(ctx, c.ID)
		note(e)
	}
	_, e = Rooms.Search(ctx, s.View, "x")
	note(e)
	_, _, e = s.Active(ctx, "tty1")
	note(e)
	_, _, _, e = Rooms.Rescue(ctx, s, func(error) {})
	note(e)
	inPlace, ofCopy := s.Check(ctx), s.f.check(ctx, 0)
	note(inPlace)
	if (inPlace == nil) != (ofCopy == nil) {
		t.Errorf("Check of a copy = %v, in place %v", ofCopy, inPlace)
	}
	_, e = s.Create(ctx, New{})
	note(e)
	_, e = s.Expire(ctx)
	note(e)
	return err
}

// sampleStore returns the bytes of a store that has something everywhere, and more than a page of
// it.
func sampleStore(t testing.TB) []byte {
	t.Helper()
	s, err := Open(filepath.Join(memoryDir(t), "store"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c := mustCreate(t, s, New{Title: "x"})
		l := mustLock(t, s, c.ID)
		for range 40 {
			mustAppend(t, l, TurnStart{}, UserMessage{Text: strings.Repeat("x", 300)}, TurnEnd{State: StateOK})
		}
		rs, err := l.Below().Reserve(t.Context(), admit(Child{Call: "a"}, Child{Call: "b"}))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rs {
			if _, err := l.Below().Settle(t.Context(), r, Outcome{State: StateOK}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Activate(t.Context(), "tty1", c.ID); err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
	}
	return mustRead(t, s.Path())
}

func storeOf(t testing.TB, data []byte) *Store {
	t.Helper()
	dir := filepath.Join(memoryDir(t), "store")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Path(), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestNoStore opens files that are no store, or only a piece of one. Each is refused with the
// reason, and left as it is.
func TestNoStore(t *testing.T) {
	sample := sampleStore(t)
	foreign := filepath.Join(t.TempDir(), "foreign.db")
	bolt := rawOpen(t, foreign, false)
	_ = bolt.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("something else"))
		return err
	})
	_ = bolt.Close()
	unversioned := filepath.Join(t.TempDir(), "unversioned.db")
	bolt = rawOpen(t, unversioned, false)
	_ = bolt.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("meta"))
		return err
	})
	_ = bolt.Close()
	for _, test := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "not a bbolt file"},
		{"text", []byte("hello, world\n"), "not a bbolt file"},
		{"zeros", make([]byte, 1<<20), "not a bbolt file"},
		{"noise", bytes.Repeat([]byte("\xde\xad\xbe\xef"), 1<<16), "not a bbolt file"},
		{"only the metas", sample[:2*os.Getpagesize()], "truncated"},
		{"half", sample[:len(sample)/2], "truncated"},
		{"all but the last page in use", truncated(t, sample), "truncated"},
		{"another program's", mustRead(t, foreign), "a bbolt file, but not a store"},
		{"without a version", mustRead(t, unversioned), "meta: no schema version"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := storeOf(t, test.data)
			for what, call := range map[string]func() error{
				"List":   func() error { _, err := s.List(t.Context(), Filter{}); return err },
				"Create": func() error { _, err := s.Create(t.Context(), New{}); return err },
				"Check":  func() error { return s.Check(t.Context()) },
			} {
				err := call()
				var damaged *DamagedError
				if !errors.As(err, &damaged) || damaged.Path != s.Path() || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%s: error %v, want a *DamagedError about %q", what, err, test.want)
				}
			}
			if !bytes.Equal(mustRead(t, s.Path()), test.data) {
				t.Error("the file was changed")
			}
		})
	}
}

// truncated cuts the last page off that the newer meta counts as in use.
func truncated(t testing.TB, sample []byte) []byte {
	t.Helper()
	p, err := page.Open(bytes.NewReader(sample), int64(len(sample)))
	if err != nil {
		t.Fatal(err)
	}
	return sample[:(p.High-1)*p.PageSize]
}

// TestDamagedPages overwrites pieces of a sound store, wherever. Whatever they were, the answer is
// a result or an error, and never a crash.
func TestDamagedPages(t *testing.T) {
	sample := sampleStore(t)
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	pages := len(sample) / os.Getpagesize()
	reported := 0
	for range 60 {
		data := bytes.Clone(sample)
		for range 1 + rnd.IntN(4) {
			// Most often in the head of a page, where the structure is.
			at := rnd.IntN(pages)*os.Getpagesize() + rnd.IntN(64)
			if rnd.IntN(3) == 0 {
				at = rnd.IntN(len(data) - 8)
			}
			for i := range 1 + rnd.IntN(8) {
				data[at+i] = byte(rnd.Uint32() >> rnd.IntN(8))
			}
		}
		s := storeOf(t, data)
		if err := touchEverything(t, s); err != nil {
			reported++
		}
		_ = os.RemoveAll(filepath.Dir(s.Path()))
	}
	if reported == 0 {
		t.Errorf("seed %d: nothing was noticed", seed)
	}
}

// TestStaleBranch puts a branch in the place of each leaf, as a lost write can leave one there, that
// leads to itself, or to a branch. bbolt would go round: whoever reads or writes there says that the
// store is damaged.
func TestStaleBranch(t *testing.T) {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_AS, &before); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Setrlimit(syscall.RLIMIT_AS, &before) })
	if err := narrow(8 << 30); err != nil && runtime.GOOS == "linux" { // for a round without end
		t.Fatal(err)
	}
	sample := sampleStore(t)
	p, err := page.Open(bytes.NewReader(sample), int64(len(sample)))
	if err != nil {
		t.Fatal(err)
	}
	order, free := binary.NativeEndian, freePages(p, sample)
	var branches, leaves []uint64
	for id := uint64(2); id < p.High; id += 1 + uint64(order.Uint32(sample[id*p.PageSize+12:])) {
		switch kind := order.Uint16(sample[id*p.PageSize+8:]); {
		case free[id]:
		case kind == page.FlagBranch:
			branches = append(branches, id)
		case kind == 2 && id != p.Root:
			leaves = append(leaves, id)
		}
	}
	if len(branches) == 0 || len(leaves) < 20 {
		t.Fatalf("the sample has %d branches and %d leaves, want more", len(branches), len(leaves))
	}
	for _, id := range leaves {
		for _, to := range append(branches, id) {
			data := bytes.Clone(sample)
			at := data[id*p.PageSize:][:p.PageSize]
			key := bytes.Clone(at[16+order.Uint32(at[20:]):][:order.Uint32(at[24:])]) // of its first entry
			order.PutUint16(at[8:], page.FlagBranch)
			order.PutUint16(at[10:], 1)
			order.PutUint32(at[16:], 16)
			order.PutUint32(at[20:], uint32(len(key)))
			order.PutUint64(at[24:], to)
			copy(at[32:], key)
			s := storeOf(t, data)
			var damaged *DamagedError
			if err := touchEverything(t, s); !errors.As(err, &damaged) {
				t.Errorf("page %d leads to %d: %v, want a *DamagedError", id, to, err)
			}
			_ = os.RemoveAll(filepath.Dir(s.Path()))
		}
	}
}

// TestStaleLeaf puts leaves of before in the place of others, as a lost write can leave one there.
// Whoever then appends takes away nothing that could be read.
func TestStaleLeaf(t *testing.T) {
	s := openStore(t)
	logs := []*Log{mustLock(t, s, mustCreate(t, s, New{}).ID), mustLock(t, s, mustCreate(t, s, New{}).ID), mustLock(t, s, mustCreate(t, s, New{}).ID)}
	order := binary.NativeEndian
	fill := func() (data []byte, leaves [][]byte) {
		for _, l := range logs {
			for range 12 {
				mustAppend(t, l, UserMessage{Text: strings.Repeat("x", 700)})
			}
		}
		data = mustRead(t, s.Path())
		p, err := page.Open(bytes.NewReader(data), int64(len(data)))
		mustNot(t, err)
		free := freePages(p, data)
		for id := uint64(2); id < p.High; id++ {
			at := data[id*p.PageSize:][:p.PageSize]
			if !free[id] && order.Uint16(at[8:]) == 2 && bytes.Contains(at, []byte("xxx")) {
				leaves = append(leaves, at)
			}
		}
		return data, leaves
	}
	_, before := fill()
	data, after := fill()
	if len(before) < 8 || len(after) < 16 {
		t.Fatalf("%d leaves before and %d after, want more", len(before), len(after))
	}
	events := func(s *Store) map[string]bool {
		lines, _, _, err := Rooms.Rescue(t.Context(), s, func(error) {})
		mustNot(t, err)
		found := make(map[string]bool)
		for line := range strings.Lines(lines) {
			found[line] = strings.HasPrefix(line, `{"event"`)
		}
		return found
	}
	for i, at := range after {
		present := bytes.Clone(at)
		for j := 0; j < len(before); j += 3 {
			copy(at[8:], before[j][8:])
			stale := storeOf(t, data)
			was := events(stale)
			for _, l := range logs {
				l := mustLock(t, stale, l.ID())
				_ = l.Append(t.Context(), Event{Body: UserMessage{Text: "y"}})
				_ = l.Close()
			}
			is, lost := events(stale), 0
			for line, event := range was {
				if event && !is[line] {
					lost++
				}
			}
			if lost > 0 {
				t.Errorf("with leaf %d of before in the place of leaf %d: %d events lost by appending", j, i, lost)
			}
			_ = os.RemoveAll(filepath.Dir(stale.Path()))
		}
		copy(at, present)
	}
}

// TestCheckNotices breaks one promise after the other behind the store's back.
func TestCheckNotices(t *testing.T) {
	sample := sampleStore(t)
	first := func(tx *bbolt.Tx, bucket string) ([]byte, []byte) {
		k, v := tx.Bucket([]byte(bucket)).Cursor().First()
		return bytes.Clone(k), bytes.Clone(v)
	}
	drop := func(bucket string) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error {
			k, _ := first(tx, bucket)
			return tx.Bucket([]byte(bucket)).Delete(k)
		}
	}
	put := func(bucket string, k, v []byte) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error { return tx.Bucket([]byte(bucket)).Put(k, v) }
	}
	rewrite := func(bucket, from, to string) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error {
			k, v := first(tx, bucket)
			if !bytes.Contains(v, []byte(from)) {
				t.Fatalf("%s: %s has no %s", bucket, v, from)
			}
			return tx.Bucket([]byte(bucket)).Put(k, bytes.Replace(v, []byte(from), []byte(to), 1))
		}
	}
	ghost := ID(77).key()
	for name, harm := range map[string]func(*bbolt.Tx) error{
		"a missing record":         drop("conversations"),
		"a missing root":           drop("roots"),
		"a missing child":          drop("children"),
		"a missing config":         drop("configs"),
		"a missing event":          drop("events"),
		"a missing entry":          drop("listing"),
		"a ghost's entry":          put("listing", db.Key(77), make([]byte, 26)),
		"another title listed":     rewrite("listing", "x", "y"),
		"a missing event id":       drop("event_ids"),
		"a missing turn":           drop("turns"),
		"a missing delegation":     drop("delegations"),
		"a missing call":           drop("calls"),
		"a ghost among the roots":  put("roots", ghost, nil),
		"a ghost's child":          put("children", db.PairKey(ID(77), 78), []byte{1}),
		"a ghost's config":         put("configs", ghost, []byte("[]\n")),
		"a ghost's event":          put("events", db.PairKey(ID(77), 1), []byte("x")),
		"a ghost's event id":       put("event_ids", db.TextKey(ID(77), "x"), db.Key(1)),
		"a ghost's turn":           put("turns", db.TurnKey(ID(77), 1), db.Key(1)),
		"a ghost's call":           put("calls", db.TextKey(ID(77), "x"), make([]byte, 20)),
		"a ghost that expires":     put("expiring", expiryKey(storeEpoch, 77), nil),
		"an open ghost":            put("open", db.PairKey(ID(77), 1), db.PairKey(ID(1), 2)),
		"a session that is none":   put("sessions", []byte("x"), []byte("{")),
		"a record that is none":    put("conversations", ghost, []byte("{")),
		"a wrong number of events": rewrite("conversations", `"events":120`, `"events":121`),
		"a wrong number of turns":  rewrite("conversations", `"turns":40`, `"turns":41`),
		"a wrong child count":      rewrite("conversations", `"children":2`, `"children":3`),
		"a parent that is gone":    rewrite("conversations", `{`, `{"parent":"jp-c77","link":"fork",`),
		"an event of another kind": rewrite("events", `turn_start`, `turn_stxxt`),
		"a delegation reopened":    rewrite("delegations", `"state":"ok"`, `"state":""`),
	} {
		t.Run(name, func(t *testing.T) {
			s := storeOf(t, sample)
			bolt := rawOpen(t, s.Path(), false)
			if err := errors.Join(bolt.Update(harm), bolt.Close()); err != nil {
				t.Fatal(err)
			}
			var damaged *DamagedError
			if err := s.Check(t.Context()); !errors.As(err, &damaged) {
				t.Errorf("Check: error %v, want a *DamagedError", err)
			} else if name == "a parent that is gone" && !strings.Contains(err.Error(), "jp-c77") {
				t.Errorf("Check: %v names no jp-c77", err)
			}
		})
	}
	if err := storeOf(t, sample).Check(t.Context()); err != nil {
		t.Errorf("the sample itself: %v", err)
	}
}

// TestFreeInUse: where a page in use counts as free, nothing is written.
func TestFreeInUse(t *testing.T) {
	sample := sampleStore(t)
	p, err := page.Open(bytes.NewReader(sample), int64(len(sample)))
	if err != nil || p.Free == 0 {
		t.Fatalf("the sample has %+v free, %v, want some", p, err)
	}
	order, free := binary.NativeEndian, freePages(p, sample)
	for id := uint64(2); id < p.High; id += 1 + uint64(order.Uint32(sample[id*p.PageSize+12:])) {
		if free[id] {
			continue
		}
		wrong := bytes.Clone(sample)
		order.PutUint64(wrong[p.Freelist*p.PageSize+page.HeaderSize:], id)
		s := storeOf(t, wrong)
		var damaged *DamagedError
		if _, err := s.Create(t.Context(), New{}); !errors.As(err, &damaged) || !bytes.Equal(mustRead(t, s.Path()), wrong) {
			t.Errorf("page %d is free: Create = %v, want a *DamagedError and the same file", id, err)
		}
	}
}

// TestWrongLength writes to stores with a leaf whose header names a page too many or too few. Each
// write is refused or does no harm: once that header is right again, the file is sound.
func TestWrongLength(t *testing.T) {
	s := openStore(t)
	c, removed := mustCreate(t, s, New{}), mustCreate(t, s, New{})
	for _, id := range []ID{c.ID, removed.ID} {
		l := mustLock(t, s, id)
		for i := range 200 {
			mustAppend(t, l, UserMessage{Text: strings.Repeat("x", 1+i%7*3000)})
		}
		_ = l.Close()
	}
	sample := mustRead(t, s.Path())
	p, err := page.Open(bytes.NewReader(sample), int64(len(sample)))
	if err != nil {
		t.Fatal(err)
	}
	order, free := binary.NativeEndian, freePages(p, sample)
	refused, done := 0, 0
	for id := uint64(2); id < p.High; id += 1 + uint64(order.Uint32(sample[id*p.PageSize+12:])) {
		at := int(id * p.PageSize)
		if free[id] || order.Uint16(sample[at+8:]) != 2 { // no leaf
			continue
		}
		for _, more := range []uint32{1, ^uint32(0)} {
			right := order.Uint32(sample[at+12:])
			if right+more > 1000 {
				continue
			}
			wrong := bytes.Clone(sample)
			order.PutUint32(wrong[at+12:], right+more)
			s := storeOf(t, wrong)
			for _, err := range writeEverywhere(t, s, c.ID, removed.ID) {
				var damaged *DamagedError
				if done++; errors.As(err, &damaged) {
					done, refused = done-1, refused+1
				} else if err != nil {
					t.Fatalf("page %d: %v", id, err)
				}
			}
			now := mustRead(t, s.Path())
			if order.Uint32(now[at+12:]) == right+more && order.Uint64(now[at:]) == id {
				order.PutUint32(now[at+12:], right)
			}
			p, err := page.Open(bytes.NewReader(now), int64(len(now)))
			if err == nil {
				err = p.Check()
			}
			if err != nil {
				t.Errorf("page %d, %+d: after writes: %v", id, int32(more), err)
			}
		}
	}
	if refused == 0 || done == 0 {
		t.Errorf("%d writes refused, %d done, want some of both", refused, done)
	}
}

// writeEverywhere appends, removes and creates, and returns what each write came to.
func writeEverywhere(t *testing.T, s *Store, appended, removed ID) (errs []error) {
	write := func(fn func() error) { errs = append(errs, fn()) }
	for range 2 {
		write(func() error {
			l, err := s.Lock(t.Context(), appended)
			if err != nil {
				return err
			}
			defer l.Close()
			return l.Append(t.Context(), Event{Body: UserMessage{Text: "y"}})
		})
	}
	write(func() error { _, err := s.Remove(t.Context(), removed, RemoveOptions{}); return err })
	for range 3 {
		write(func() error { _, err := s.Create(t.Context(), New{}); return err })
	}
	return errs
}

func freePages(p *page.File, data []byte) map[uint64]bool {
	free := map[uint64]bool{p.Freelist: true}
	list := data[p.Freelist*p.PageSize+page.HeaderSize:][:8*p.Free]
	for at := 0; at < len(list); at += 8 {
		free[binary.NativeEndian.Uint64(list[at:])] = true
	}
	return free
}

// TestFreeInUseOfMany: whatever page of a larger file counts as free while it is in use, each check
// finds it, though it does not read each page.
func TestFreeInUseOfMany(t *testing.T) {
	s := openStore(t)
	c, removed := mustCreate(t, s, New{}), mustCreate(t, s, New{})
	for _, id := range []ID{c.ID, removed.ID} {
		l := mustLock(t, s, id)
		for i := range 300 {
			mustAppend(t, l, UserMessage{Text: strings.Repeat("x", 1+i%7*3000)})
		}
		_ = l.Close()
	}
	if _, err := s.Remove(t.Context(), removed.ID, RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	mustCreate(t, s, New{}) // what was freed before it is listed
	data := mustRead(t, s.Path())
	open := func() *page.File {
		p, err := page.Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := open()
	if _, err := p.CheckFast(); err != nil || p.Free < 100 || p.High < 1000 {
		t.Fatalf("%d free pages of %d, CheckFast = %v; want many, and nil", p.Free, p.High, err)
	}
	free, first := freePages(p, data), data[p.Freelist*p.PageSize+page.HeaderSize:][:8]
	sound := bytes.Clone(first)
	for id := uint64(2); id < p.High; id++ {
		if free[id] {
			continue
		}
		binary.NativeEndian.PutUint64(first, id)
		if _, err := open().CheckFast(); err == nil {
			t.Errorf("page %d is free and in use, and the file passes", id)
		}
	}
	copy(first, sound)
}

// TestRing reads stores of which one branch leads back to itself.
func TestRing(t *testing.T) {
	sample, order, size := sampleStore(t), binary.NativeEndian, os.Getpagesize()
	rings := 0
	for at := 2 * size; at < len(sample); at += size {
		if order.Uint16(sample[at+8:]) != page.FlagBranch {
			continue
		}
		for _, child := range []int{0, int(order.Uint16(sample[at+10:])) - 1} {
			wrong := bytes.Clone(sample)
			copy(wrong[at+page.HeaderSize+16*child+8:], wrong[at:at+8])
			var damaged *DamagedError
			if err := touchEverything(t, storeOf(t, wrong)); errors.As(err, &damaged) {
				rings++
			} else if err != nil {
				t.Errorf("page %d, child %d: %v, want a *DamagedError", at/size, child, err)
			}
		}
	}
	if rings == 0 {
		t.Error("no branch is in use")
	}
}

// TestLostMeta: a store of which one meta makes no sense is read by the other, and says so; the
// next write mends it.
func TestLostMeta(t *testing.T) {
	sample := sampleStore(t)
	for slot := range 2 {
		broken := bytes.Clone(sample)
		broken[slot*os.Getpagesize()+page.HeaderSize+50] ^= 1
		s := storeOf(t, broken)
		var notices []string
		s.f.Notice = func(text string) { notices = append(notices, text) }
		if err := s.Check(t.Context()); !errors.Is(err, page.ErrLone) {
			t.Errorf("Check without meta %d = %v, want %v", slot, err, page.ErrLone)
		}
		mustCreate(t, s, New{})
		if len(notices) != 1 || !strings.Contains(notices[0], page.ErrLone.Error()) {
			t.Errorf("notices without meta %d: %q", slot, notices)
		}
		if _, _, err := s.Compact(t.Context()); err != nil {
			t.Errorf("Compact after a write: %v", err)
		}
	}
}

// faulty fails to read what is at an offset.
type faulty struct {
	io.ReaderAt
	at int64
}

func (f faulty) ReadAt(b []byte, at int64) (int, error) {
	if at <= f.at && f.at < at+int64(len(b)) {
		return 0, syscall.EIO
	}
	return f.ReaderAt.ReadAt(b, at)
}

// TestUnreadMeta: where the disk fails to read a meta, the other one is not taken in its place.
func TestUnreadMeta(t *testing.T) {
	sample := sampleStore(t)
	for slot := range 2 {
		at := int64(slot * os.Getpagesize())
		if _, err := page.Open(faulty{bytes.NewReader(sample), at}, int64(len(sample))); err != syscall.EIO {
			t.Errorf("Open without meta %d = %v, want %v", slot, err, syscall.EIO)
		}
	}
}

// TestLostEvents: whoever reads all of a conversation is told when some of it is not there.
func TestLostEvents(t *testing.T) {
	for _, lost := range []uint64{1, 60, 120} { // of 120
		s := storeOf(t, sampleStore(t))
		id := mustList(t, s.View, Filter{Roots: true})[0]
		if err := s.f.write(t.Context(), func(tx *tx) error { return tx.Drop(db.Events, db.PairKey(id, lost)) }); err != nil {
			t.Fatal(err)
		}
		for what, read := range map[string]func() error{
			"Events": func() (err error) {
				for _, err = range s.Events(t.Context(), id, Range{}) {
				}
				return err
			},
			"EventsOf": func() (err error) {
				for _, err = range s.EventsOf(t.Context(), []ID{id}) {
				}
				return err
			},
			"Export": func() error { _, err := Rooms.Export(t.Context(), s.View, []ID{id}, false); return err },
			"Fork":   func() error { _, err := s.Fork(t.Context(), id, Fork{}); return err },
			"Search": func() error { _, err := Rooms.Search(t.Context(), s.View, "in no event"); return err },
		} {
			var damaged *DamagedError
			if err := read(); !errors.As(err, &damaged) || !strings.Contains(err.Error(), "is missing") {
				t.Errorf("%s without event %d = %v, want a *DamagedError about it", what, lost, err)
			}
		}
	}
}

// TestStaleRecord puts the record of before in the place of a conversation's, as a lost write can
// leave it there. Whoever then appends writes over no event.
func TestStaleRecord(t *testing.T) {
	s := openStore(t)
	id := mustCreate(t, s, New{}).ID
	l := mustLock(t, s, id)
	mustAppend(t, l, TurnStart{}, UserMessage{Text: "x"})
	var before []byte
	mustNot(t, s.f.read(t.Context(), func(tx *tx) error {
		before = bytes.Clone(tx.Bucket(db.Conversations).Get(id.key()))
		return nil
	}))
	mustAppend(t, l, AssistantMessage{Text: "paid"})
	s = storeOf(t, mustRead(t, s.Path()))
	mustNot(t, s.f.write(t.Context(), func(tx *tx) error { return tx.Put(db.Conversations, id.key(), before) }))
	if err := mustLock(t, s, id).Append(t.Context(), Event{Body: UserMessage{Text: "y"}}); !errors.As(err, new(*DamagedError)) {
		t.Errorf("Append = %v, want a *DamagedError", err)
	}
	if lines, _, _, err := Rooms.Rescue(t.Context(), s, func(error) {}); !strings.Contains(lines, `"paid"`) {
		t.Errorf("Rescue = %s, %v, want the event that the record does not know", lines, err)
	}
}

// TestStaleNumber puts the number of the last delegation back, as a lost write can. Whoever then
// delegates writes over no delegation.
func TestStaleNumber(t *testing.T) {
	f := newFamily(t)
	mustNot(t, f.s.f.write(t.Context(), func(tx *tx) error {
		if err := tx.Bolt.Bucket([]byte(db.BucketNames[db.Delegations])).SetSequence(0); err != nil {
			return err
		}
		return tx.Put(db.Meta, []byte("changed"), nil)
	}))
	scope, err := f.s.Below(t.Context(), f.root)
	mustNot(t, err)
	if _, err := scope.Reserve(t.Context(), admit(Child{Call: "another"})); !errors.As(err, new(*DamagedError)) {
		t.Errorf("Reserve = %v, want a *DamagedError", err)
	}
}

// TestLaterKinds: a kind of event that a later version of the same schema has stored is no damage.
func TestLaterKinds(t *testing.T) {
	s := openStoreIn(t, filepath.Join(memoryDir(t), "store"), Options{})
	c := mustCreate(t, s, New{})
	mustAppend(t, mustLock(t, s, c.ID), Opaque{Name: "later", Raw: []byte(`{"type":"later"}`)})
	if err := s.f.write(t.Context(), func(tx *tx) error {
		v := bytes.Clone(tx.Bucket(db.Events).Get(db.PairKey(c.ID, 1)))
		v[1] = byte(stored.KindCount)
		return tx.Put(db.Events, db.PairKey(c.ID, 1), v)
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestRingOfParents reads a store in which a conversation is its own ancestor.
func TestRingOfParents(t *testing.T) {
	s := storeOf(t, sampleStore(t))
	list := mustList(t, s.View, Filter{Roots: true})
	a, b := list[0], list[1]
	if err := s.f.write(t.Context(), func(tx *tx) error {
		for _, pair := range [][2]ID{{a, b}, {b, a}} {
			r, err := tx.Load(pair[0])
			if err != nil {
				return err
			}
			r.Parent, r.Link = pair[1], DelegationLink
			if err := errors.Join(tx.Save(pair[0], r), tx.Put(db.Children, db.PairKey(pair[1], uint64(pair[0])), []byte{byte(DelegationLink)})); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var damaged *DamagedError
	if err := touchEverything(t, s); !errors.As(err, &damaged) {
		t.Errorf("reading: %v, want a *DamagedError", err)
	}
	if _, err := s.Get(t.Context(), a); !errors.As(err, &damaged) {
		t.Errorf("Get: %v, want a *DamagedError", err)
	}
	if _, err := s.Remove(t.Context(), a, RemoveOptions{Cascade: true}); !errors.As(err, &damaged) {
		t.Errorf("Remove: %v, want a *DamagedError", err)
	}
}

// TestHostileFiles puts other things where the store's files should be.
func TestHostileFiles(t *testing.T) {
	sample := sampleStore(t)
	for _, name := range []string{file.StoreName, file.GateName, file.RunsName} {
		for what, put := range map[string]func(path string) error{
			"fifo":    func(path string) error { return syscall.Mkfifo(path, 0o600) },
			"folder":  func(path string) error { return os.Mkdir(path, 0o700) },
			"symlink": func(path string) error { return os.Symlink("/etc/passwd", path) },
		} {
			t.Run(name+" is a "+what, func(t *testing.T) {
				s := storeOf(t, sample)
				path := filepath.Join(filepath.Dir(s.Path()), name)
				_ = os.Remove(path)
				if err := put(path); err != nil {
					t.Fatal(err)
				}
				id := idOfFirst(t, sample)
				l, err := s.Lock(t.Context(), id)
				if err == nil {
					_ = l.Close()
					t.Fatal("it was taken")
				}
				if !strings.Contains(err.Error(), path) {
					t.Errorf("error %q does not name %s", err, path)
				}
			})
		}
	}
}

func idOfFirst(t testing.TB, sample []byte) ID {
	t.Helper()
	return mustList(t, storeOf(t, sample).View, Filter{Roots: true})[0]
}

func TestReadOnly(t *testing.T) {
	sample := sampleStore(t)
	s := storeOf(t, sample)
	dir := filepath.Dir(s.Path())
	ro, err := Open(dir, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	id := mustList(t, ro.View, Filter{})[0]
	if got := len(mustEvents(t, ro.View, id, Range{})); got != 120 {
		t.Errorf("%d events, want 120", got)
	}
	if n, err := Rooms.Search(t.Context(), ro.View, "x"); n == 0 || err != nil {
		t.Errorf("found %d, %v", n, err)
	}
	if err := ro.Check(t.Context()); err != nil {
		t.Error(err)
	}
	ctx := t.Context()
	_, create := ro.Create(ctx, New{})
	_, fork := ro.Fork(ctx, id, Fork{})
	_, remove := ro.Remove(ctx, id, RemoveOptions{})
	_, lock := ro.Lock(ctx, id)
	for what, err := range map[string]error{
		"Create": create, "Fork": fork, "Remove": remove, "Lock": lock,
		"Edit":     ro.Edit(ctx, id, func(*Conversation) error { return nil }),
		"Activate": ro.Activate(ctx, "x", id),
	} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: error %v, want ErrReadOnly", what, err)
		}
	}
	if !bytes.Equal(mustRead(t, s.Path()), sample) {
		t.Error("reading changed the file")
	}
	if names := filesIn(t, dir); len(names) != 1 {
		t.Errorf("reading made files: %v", names)
	}
}

// TestReadOnlyDisk takes the right to write away, which root does not notice.
func TestReadOnlyDisk(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write anywhere")
	}
	s := storeOf(t, sampleStore(t))
	dir := filepath.Dir(s.Path())
	_ = os.Chmod(s.Path(), 0o400)
	_ = os.Chmod(dir, 0o500)
	defer func() { _ = os.Chmod(dir, 0o700) }()
	mustList(t, s.View, Filter{})
	_, err := s.Create(t.Context(), New{})
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Create: error %v, want permission denied", err)
	}
}

// TestPanicInCallback lets a function that runs inside of a transaction panic. The panic comes out,
// nothing is written, and the store can be used.
func TestPanicInCallback(t *testing.T) {
	s := openStore(t)
	c := mustCreate(t, s, New{Title: "before"})
	for name, call := range map[string]func(){
		"edit": func() {
			_ = s.Edit(t.Context(), c.ID, func(c *Conversation) error {
				c.Title = "after"
				panic("mine")
			})
		},
		"admit": func() {
			scope, err := s.Below(t.Context(), c.ID)
			if err != nil {
				t.Error(err)
			}
			_, _ = scope.Reserve(t.Context(), func(Standing) ([]Child, error) { panic("mine") })
		},
	} {
		func() {
			defer func() {
				if r := recover(); r != "mine" {
					t.Errorf("%s: recovered %v, want the panic of the callback", name, r)
				}
			}()
			call()
		}()
		if got := mustGet(t, s.View, c.ID).Title; got != "before" {
			t.Errorf("%s: title %q", name, got)
		}
	}
}
