package convstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
	"jp/convstore/internal/page"
)

// TestRescue damages a store in many ways: whatever can still be read goes into a new store, and
// that is sound.
func TestRescue(t *testing.T) {
	sample := sampleStore(t)
	rescue := func(data []byte) (events, lost int) {
		s := storeOf(t, data)
		lines, _, events, err := Rooms.Rescue(t.Context(), s, func(error) { lost++ })
		mustNot(t, err)
		to, err := Open(filepath.Join(t.TempDir(), "store"), Options{})
		mustNot(t, err)
		mustImport(t, to, lines)
		return events, lost
	}
	all, lost := rescue(sample)
	if all == 0 || lost != 0 {
		t.Fatalf("of a sound store: %d events, %d lost", all, lost)
	}
	size, random := os.Getpagesize(), rand.New(rand.NewPCG(1, 2))
	some := 0
	for i := 2; i < len(sample)/size; i++ {
		broken := bytes.Clone(sample)
		for range 8 {
			broken[i*size+random.IntN(size)] ^= byte(1 + random.IntN(255))
		}
		events, lost := rescue(broken)
		if events > all {
			t.Errorf("with page %d damaged: %d events of %d", i, events, all)
		}
		if lost > 0 && events > 0 {
			some++
		}
	}
	if some == 0 {
		t.Error("nothing was ever damaged")
	}
}

// TestRescueWhole: of a sound store everything is rescued that an export has, also what was
// imported and what removed conversations used, and nothing of what was removed with its root.
func TestRescueWhole(t *testing.T) {
	from := storeOf(t, sampleStore(t))
	roots := mustList(t, from.View, Filter{Roots: true})
	for _, root := range roots[:2] {
		_, err := from.Remove(t.Context(), mustList(t, from.View, Filter{Hidden: true, Children: root})[0], RemoveOptions{})
		mustNot(t, err)
	}
	s := storeOf(t, mustRead(t, from.Path()))
	lines := mustExport(t, s, roots[0])
	_, err := s.Remove(t.Context(), roots[0], RemoveOptions{Cascade: true})
	mustNot(t, err)
	mustImport(t, s, lines)
	_, err = s.Remove(t.Context(), roots[2], RemoveOptions{Cascade: true})
	mustNot(t, err)
	want := strings.Split(mustExport(t, s, roots[:2]...), "\n")
	lines, _, _, err = Rooms.Rescue(t.Context(), s, func(err error) { t.Errorf("lost: %v", err) })
	mustNot(t, err)
	got := strings.Split(lines, "\n")
	slices.Sort(got)
	slices.Sort(want)
	if n := strings.Count(lines, `{"delegation":`); n != 4 || !slices.Equal(got, want) {
		t.Errorf("%d delegations, rescued:\n%s\nexported:\n%s", n, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	mustNot(t, s.f.write(t.Context(), func(tx *tx) error {
		k, _ := tx.Bucket(db.Imported).Cursor().First()
		return tx.Drop(db.Imported, bytes.Clone(k))
	}))
	var lost []string
	_, _, _, err = Rooms.Rescue(t.Context(), s, func(err error) { lost = append(lost, err.Error()) })
	if err != nil || len(lost) != 1 || !strings.HasSuffix(lost[0], ": what was imported with it is missing") {
		t.Errorf("without what was imported: %v, lost %q", err, lost)
	}
}

// TestRescueLedger: of a conversation its delegations are rescued where nothing else is left of it.
func TestRescueLedger(t *testing.T) {
	s := storeOf(t, sampleStore(t))
	id := mustList(t, s.View, Filter{Roots: true})[0]
	mustNot(t, s.f.write(t.Context(), func(tx *tx) (err error) {
		for _, bucket := range []db.BucketNumber{db.Conversations, db.Configs, db.Events, db.Listing} {
			var keys [][]byte
			_ = tx.Prefixed(bucket, id.key(), func(k, _ []byte) error { keys = append(keys, bytes.Clone(k)); return nil })
			for _, k := range keys {
				err = errors.Join(err, tx.Drop(bucket, k))
			}
		}
		return err
	}))
	var lost []string
	lines, _, _, err := Rooms.Rescue(t.Context(), s, func(err error) { lost = append(lost, err.Error()) })
	mustNot(t, err)
	mustImport(t, openStore(t), lines)
	if got, want := strings.Join(lost, "\n"), "conversation "+id.String()+": its record"; got != want || !strings.Contains(lines, `"root_id":"`+id.String()) {
		t.Errorf("lost: %s; want %s", got, want)
	}
}

// TestRescueZeroth: an event whose number became 0 hides no other one that is missing.
func TestRescueZeroth(t *testing.T) {
	s := storeOf(t, sampleStore(t))
	id := mustList(t, s.View, Filter{Roots: true})[0]
	mustNot(t, s.f.write(t.Context(), func(tx *tx) error {
		v := bytes.Clone(tx.Bucket(db.Events).Get(db.PairKey(id, 60)))
		return errors.Join(tx.Drop(db.Events, db.PairKey(id, 60)), tx.Put(db.Events, db.PairKey(id, 0), v))
	}))
	var lost []string
	_, _, _, err := Rooms.Rescue(t.Context(), s, func(err error) { lost = append(lost, err.Error()) })
	mustNot(t, err)
	if got, want := strings.Join(lost, "\n"), "conversation "+id.String()+": event 60"; got != want {
		t.Errorf("lost: %s; want %s", got, want)
	}
}

// TestRescueOlder: of a conversation whose record is older than its events, the present one is
// lost.
func TestRescueOlder(t *testing.T) {
	s := storeOf(t, sampleStore(t))
	id := mustList(t, s.View, Filter{Roots: true})[0]
	mustNot(t, s.f.write(t.Context(), func(tx *tx) error {
		r, err := tx.Load(id)
		if err != nil {
			return err
		}
		r.LastSeq -= 3
		return tx.Save(id, r)
	}))
	var lost []string
	_, _, _, err := Rooms.Rescue(t.Context(), s, func(err error) { lost = append(lost, err.Error()) })
	mustNot(t, err)
	if got, want := strings.Join(lost, "\n"), "conversation "+id.String()+": its record: only an older one is there"; got != want {
		t.Errorf("lost: %s; want %s", got, want)
	}
}

// TestRescueTitle: an older record is told from the present one by the listing, where only a title
// differs.
func TestRescueTitle(t *testing.T) {
	s := storeOf(t, sampleStore(t))
	id := mustList(t, s.View, Filter{Roots: true})[0]
	mustNot(t, s.f.write(t.Context(), func(tx *tx) error {
		was := bytes.Clone(tx.Bucket(db.Conversations).Get(id.key()))
		r, err := tx.Load(id)
		if err != nil {
			return err
		}
		r.Title = "the present one"
		return errors.Join(tx.Save(id, r), tx.Put(db.Conversations, id.key(), was))
	}))
	var lost []string
	_, _, _, err := Rooms.Rescue(t.Context(), s, func(err error) { lost = append(lost, err.Error()) })
	mustNot(t, err)
	if got, want := strings.Join(lost, "\n"), "conversation "+id.String()+": its record or its entry in the listing: they differ, and one is an older one"; got != want {
		t.Errorf("lost: %s; want %s", got, want)
	}
}

// TestRescueImported: where a conversation with a record counts as one that is being imported, its
// events are there.
func TestRescueImported(t *testing.T) {
	s := storeOf(t, sampleStore(t))
	count := func() int {
		_, _, events, err := Rooms.Rescue(t.Context(), s, func(error) {})
		mustNot(t, err)
		return events
	}
	before := count()
	id := mustList(t, s.View, Filter{Roots: true})[0]
	mustNot(t, s.f.write(t.Context(), func(tx *tx) error { return tx.Put(db.Imports, id.key(), id.key()) }))
	if after := count(); before == 0 || after != before {
		t.Errorf("%d events, before it %d", after, before)
	}
}

// TestRescueMisplaced: what a flipped bit of its key moved to where nobody looks for it is lost, and
// what an older page does not have.
func TestRescueMisplaced(t *testing.T) {
	sample := sampleStore(t)
	for name, test := range map[string]struct {
		bucket db.BucketNumber
		at     int // byte of the key
		want   string
	}{
		"delegation of another root":    {db.Delegations, 4, "delegation of "},
		"delegation that is not there":  {db.Delegations, -1, "perhaps something: "},
		"config that is not there":      {db.Configs, -1, "perhaps something: "},
		"schema of a later version":     {db.Meta, 0, "perhaps something: "},
		"delegation of another number":  {db.Delegations, 8, "delegation of "},
		"listed conversation":           {db.Listing, 4, ": its record"},
		"what came with a conversation": {db.Imported, 4, ": what was imported with it"},
	} {
		s := storeOf(t, sample)
		mustNot(t, s.f.write(t.Context(), func(tx *tx) error {
			k, v := tx.Bucket(test.bucket).Cursor().First()
			k, v = bytes.Clone(k), bytes.Clone(v)
			if k == nil {
				k, v = db.Key(1<<40), []byte("{}")
			}
			if test.bucket == db.Meta {
				return tx.Put(db.Meta, []byte(db.SchemaKey), db.Key(schemaVersion+1))
			}
			if test.at < 0 {
				return tx.Drop(test.bucket, k)
			}
			moved := bytes.Clone(k)
			moved[test.at] ^= 8
			return errors.Join(tx.Drop(test.bucket, k), tx.Put(test.bucket, moved, v))
		}))
		var lost []string
		_, _, _, err := Rooms.Rescue(t.Context(), s, func(err error) { lost = append(lost, err.Error()) })
		mustNot(t, err)
		if len(lost) != 1 || !strings.Contains(lost[0], test.want) {
			t.Errorf("%s: lost %q, want %q", name, lost, test.want)
		}
	}
}

// TestRescueCut: an entry that seems shorter than it is is noticed, whatever it holds, and a config
// that is no JSON.
func TestRescueCut(t *testing.T) {
	s := openStore(t)
	for range 30 {
		mustCreate(t, s, New{Config: Config{JSON: []byte(`{"a":"` + strings.Repeat("x", 300) + `"}`)}})
	}
	sample := mustRead(t, s.Path())
	p, err := page.Open(bytes.NewReader(sample), int64(len(sample)))
	mustNot(t, err)
	order, free, tried := binary.NativeEndian, freePages(p, sample), 0
	for id := uint64(2); id < p.High; id++ {
		at := id*p.PageSize + page.HeaderSize
		size := order.Uint32(sample[at+12:])
		if free[id] || order.Uint16(sample[at-8:]) != 2 || order.Uint16(sample[at-6:]) < 2 || size == 0 {
			continue // no leaf of two entries
		}
		tried++
		for _, config := range []bool{false, true} {
			wrong := bytes.Clone(sample)
			if x := bytes.Index(wrong[at:at+p.PageSize-page.HeaderSize], []byte("xxx")); !config {
				order.PutUint32(wrong[at+12:], size-1)
			} else if x < 0 {
				continue
			} else {
				wrong[at+uint64(x)] = 0
			}
			s, lost := storeOf(t, wrong), 0
			_, _, _, err := Rooms.Rescue(t.Context(), s, func(error) { lost++ })
			mustNot(t, err)
			if err := s.Check(t.Context()); lost == 0 || err == nil {
				t.Errorf("page %d, config %t: %d lost, Check = %v", id, config, lost, err)
			}
		}
	}
	if tried < 5 {
		t.Errorf("%d leaves", tried)
	}
}

// TestWritableFull: nothing can be written to a store whose disk is full. Where a file system does not
// say what is free, only a write can find out.
func TestWritableFull(t *testing.T) {
	s := openStore(t)
	for _, tt := range []struct {
		free  uint64
		known bool
		want  string
	}{
		{16 << 20, true, "<nil>"},
		{16<<20 - 1, true, "store " + s.Path() + ": only 16383 KiB are free"},
		{0, true, "store " + s.Path() + ": only 0 KiB are free"},
		{0, false, "<nil>"},
	} {
		s.f.DiskFree = func(*os.File) (uint64, bool) { return tt.free, tt.known }
		if got := fmt.Sprint(s.Writable()); got != tt.want {
			t.Errorf("Writable with %d bytes free = %s, want %s", tt.free, got, tt.want)
		}
	}
}

// TestCopyKeepsRoom: a store is not copied to a disk that the copy would fill, so that others can
// write meanwhile.
func TestCopyKeepsRoom(t *testing.T) {
	var notices []string
	dir := t.TempDir()
	s := openStoreIn(t, filepath.Join(dir, "store"), Options{Notice: func(text string) { notices = append(notices, text) }})
	mustCreate(t, s, New{})
	dst, err := file.Unnamed(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dst.Close()
	for asked := false; !asked; { // what is free may change in between
		before, err := file.DiskOf(dir)
		mustNot(t, err)
		free, known := s.f.DiskFree(dst)
		after, err := file.DiskOf(dir)
		mustNot(t, err)
		if asked = before.Free == after.Free; asked && known && free != uint64(after.Free) {
			t.Errorf("room for %d bytes, want %d", free, after.Free)
		}
	}

	info, err := os.Stat(s.Path())
	mustNot(t, err)
	need := uint64(info.Size() + info.Size()/8 + 32<<20)
	free, known := need-1, true
	s.f.DiskFree = func(*os.File) (uint64, bool) { return free, known }
	if err := s.f.check(t.Context(), 0); err != nil {
		t.Errorf("check: %v", err)
	}
	want := []string{"cannot copy the store to a file beside it (no space left on device): writers wait until it has been read"}
	if !slices.Equal(notices, want) {
		t.Errorf("notices %q, want %q", notices, want)
	}
	if err := s.Backup(t.Context(), filepath.Join(dir, "backup")); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("Backup: %v", err)
	}
	copyTo := func() int64 {
		err = s.f.CopyTo(t.Context(), dst, s.f.LockAny(t.Context()))
		copied, failed := dst.Stat()
		mustNot(t, errors.Join(failed, dst.Truncate(0)))
		return copied.Size()
	}
	if n := copyTo(); !errors.Is(err, unix.ENOSPC) || n > 0 {
		t.Errorf("CopyTo: %v, and wrote %d bytes", err, n)
	}
	free = need
	if n := copyTo(); err != nil || n != info.Size() {
		t.Errorf("CopyTo with room: %v, and wrote %d bytes", err, n)
	}
	free, known = 0, false
	if n := copyTo(); err != nil || n != info.Size() {
		t.Errorf("CopyTo to a disk that does not say what is free: %v, and wrote %d bytes", err, n)
	}
}
