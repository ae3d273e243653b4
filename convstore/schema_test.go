package convstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"jp/convstore/internal/db"
	"jp/convstore/internal/stored"
)

// packageComment returns the drawing as people read it.
func packageComment(t *testing.T) string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return f.Doc.Text()
}

// shape is a key or a value as the drawing describes it.
type shape []string

// matches reports whether b has the shape.
func (s shape) matches(b []byte) bool {
	for _, part := range s {
		switch part {
		case "id":
			if len(b) < 8 || binary.BigEndian.Uint64(b) == 0 || b[0] >= 0x80 {
				return false
			}
			b = b[8:]
		case "u64", "secs":
			if len(b) < 8 {
				return false
			}
			b = b[8:]
		case "u32":
			if len(b) < 4 {
				return false
			}
			b = b[4:]
		case "u8":
			if len(b) < 1 {
				return false
			}
			b = b[1:]
		case "digest":
			if len(b) < len(Digest{}) {
				return false
			}
			b = b[len(Digest{}):]
		case "text":
			return len(b) > 0
		case "nothing":
			return len(b) == 0
		case "json":
			return json.Valid(b)
		case "config":
			_, err := ParseConfig(b)
			return err == nil
		case "entry":
			_, ok := parseEntry(b)
			return ok
		case "open":
			return len(b) == 50
		case "event":
			_, err := stored.Parse(b)
			return err == nil
		default:
			name := strings.Trim(part, `"`)
			if name == part || !bytes.HasPrefix(b, []byte(name)) {
				return false
			}
			b = b[len(name):]
		}
	}
	return len(b) == 0
}

type drawnRow struct {
	bucket     string
	key, value shape
	seen       bool
}

func drawnRows(t *testing.T) []*drawnRow {
	t.Helper()
	var rows []*drawnRow
	columns := regexp.MustCompile(` {2,}`)
	in := false
	for line := range strings.Lines(packageComment(t)) {
		cells := columns.Split(strings.TrimSpace(line), 4)
		switch {
		case len(cells) >= 3 && cells[0] == "bucket" && cells[1] == "key":
			in = true
		case in && strings.TrimSpace(line) == "":
			return rows
		case in:
			rows = append(rows, &drawnRow{bucket: cells[0], key: strings.Fields(cells[1]), value: strings.Fields(cells[2])})
		}
	}
	t.Fatal("the package comment has no drawing")
	return nil
}

// TestDrawing fills a store with everything there is, and compares what the file then holds with
// what the package comment draws.
func TestDrawing(t *testing.T) {
	s := richStore(t)
	rows := drawnRows(t)
	bolt := rawOpen(t, s.Path(), true)
	defer func() { _ = bolt.Close() }()
	err := bolt.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error {
				var fits []*drawnRow
				for _, row := range rows {
					if row.bucket == string(name) && row.key.matches(k) && v != nil && row.value.matches(v) {
						row.seen = true
						fits = append(fits, row)
					}
				}
				if len(fits) != 1 {
					t.Errorf("%s: %x: %q fits %d rows of the drawing, want 1", name, k, v, len(fits))
				}
				return nil
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	drawn := map[string]bool{}
	for _, row := range rows {
		if drawn[row.bucket] = true; !row.seen {
			t.Errorf("drawn, but not in a full store: %s %s %s", row.bucket, row.key, row.value)
		}
	}
	for _, name := range db.BucketNames {
		if !drawn[name] {
			t.Errorf("bucket %s is not drawn", name)
		}
	}
}

func TestDrawnMembers(t *testing.T) {
	_, after, _ := strings.Cut(packageComment(t), "without those that are zero:")
	drawn := strings.Fields(strings.SplitN(strings.TrimSpace(after), "\n\n", 2)[0])
	var members []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[record]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		members = append(members, name)
	}
	if !slices.Equal(drawn, members) {
		t.Errorf("drawn members: %v\nof the record: %v", drawn, members)
	}
}

// TestDrawnFolder compares the files of a store with the drawing of the folder.
func TestDrawnFolder(t *testing.T) {
	s := richStore(t)
	for _, path := range filesIn(t, filepath.Dir(s.Path())) {
		if !strings.Contains(packageComment(t), "\n\t"+filepath.Base(path)+" ") {
			t.Errorf("%s is not drawn", filepath.Base(path))
		}
	}
}

// richStore returns a store that has something in every bucket.
func richStore(t *testing.T) *Store {
	t.Helper()
	workspace := makeWorkspace(t, filepath.Join(t.TempDir(), "ws"))
	s := openStoreIn(t, filepath.Join(t.TempDir(), "store"), Options{Workspace: workspace})
	ctx := t.Context()
	root := mustCreate(t, s, New{
		Title: "root", Labels: map[string]string{"k": "v"}, Config: Config{JSON: []byte("{}"), Tools: []string{"a", "b"}},
	})
	l := mustLock(t, s, root.ID)
	mustAppend(t, l, TurnStart{}, UserMessage{Text: "hello"}, ToolCall{ID: "c1", Name: "jp_query", Arguments: []byte(`{}`)})
	rs, err := l.Below().Reserve(ctx, admit(Child{Call: "c1", Title: "open", Hidden: true}, Child{Call: "c2", Title: "settled"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rs[0].Release() })
	if _, err := l.Below().Settle(ctx, rs[1], Outcome{State: StateOK}); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, ModelCall{Model: "m", Usage: Usage{Input: 1}}, TurnEnd{State: StateOK, Asked: Digest{1}})
	mustAppend(t, l, TurnStart{}, TurnEnd{State: StateOK})
	if _, err := s.Fork(ctx, root.ID, Fork{ExpiresAt: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	mustImport(t, s, importedSeven)
	startImport(t, s)
	if err := s.Activate(ctx, "tty1", root.ID); err != nil {
		t.Fatal(err)
	}
	return s
}

const importedSeven = `{"jp_export":1}
{"conversation":{"id":"jp-c7"}}
{"event":{"id":"e1","time":"2026-01-02T03:04:05.000000006Z","body":{"type":"turn_start"}}}
{"end":{"conversations":1,"events":1}}
`

// startImport leaves an import of a conversation with an event and a delegation in the middle, its
// run lock held.
func startImport(t testing.TB, s *Store) {
	t.Helper()
	const id = ID(5)
	mustNot(t, s.f.write(t.Context(), func(tx *tx) error {
		by, err := tx.Allocate()
		if err != nil {
			return err
		}
		lock, err := tx.TakeRun(int64(by))
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = lock.Drop() })
		r := &record{CreatedAt: storeEpoch, UpdatedAt: storeEpoch}
		e, err := EncodeEvent(Event{ID: "e1", Time: storeEpoch, Body: TurnStart{}})
		if err == nil {
			_, err = tx.Append(id, r, &e, TurnStart{})
		}
		if err == nil {
			err = tx.Stage(id.key(), staged{By: by, Record: r, Imported: &Imported{At: storeEpoch}})
		}
		if err == nil {
			err = tx.Stage(db.PairKey(id, 1), staged{By: by, Delegation: &Delegation{Root: id, Caller: id, Child: 6, Call: "c1", State: StateOK}})
		}
		return err
	}))
}

// admit returns an admit function that lets everything pass.
func admit(children ...Child) func(Standing) ([]Child, error) {
	return func(Standing) ([]Child, error) { return children, nil }
}

// rawOpen opens the file as any other program would.
func rawOpen(t testing.TB, path string, readOnly bool) *bbolt.DB {
	t.Helper()
	bolt, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: readOnly, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return bolt
}

func setSchema(t testing.TB, path string, version uint64) {
	t.Helper()
	bolt := rawOpen(t, path, false)
	err := bolt.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("schema"), db.Key(version))
	})
	if err := errors.Join(err, bolt.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "store"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := mustCreate(t, s, New{})
	setSchema(t, s.Path(), schemaVersion+1)
	before := mustRead(t, s.Path())
	want := &SchemaError{Path: s.Path(), Have: schemaVersion + 1, Want: schemaVersion}
	_, err = s.Get(t.Context(), c.ID)
	checkError(t, "Get", err, want)
	_, err = s.Create(t.Context(), New{})
	checkError(t, "Create", err, want)
	checkError(t, "Check", s.Check(t.Context()), want)
	if !bytes.Equal(before, mustRead(t, s.Path())) {
		t.Error("the refused store was changed")
	}
}

func TestMigrate(t *testing.T) {
	var told []string
	s := openStoreIn(t, filepath.Join(t.TempDir(), "store"), Options{Notice: func(n string) { told = append(told, n) }})
	mustCreate(t, s, New{})
	step := func(from int) migration {
		return migration{from: from, run: func(tx *tx) error {
			return tx.Put(db.Sessions, fmt.Appendf(nil, "step %d", from), []byte("{}"))
		}}
	}
	run := func(steps []migration, want int) error {
		return s.f.write(context.Background(), func(tx *tx) error { return tx.migrate(steps, want) })
	}
	// A step that fails leaves the store as it was, the steps before it undone.
	boom := errors.New("boom")
	const v = schemaVersion
	failing := []migration{step(v), {from: v + 1, run: func(*tx) error { return boom }}}
	if err := run(failing, v+2); !errors.Is(err, boom) {
		t.Fatalf("migrate = %v, want boom", err)
	}
	if got := schemaOf(t, s); got != v {
		t.Errorf("after a failed migration: schema %d, want %d", got, v)
	}
	if err := run([]migration{step(v)}, v+2); err == nil {
		t.Error("a gap in the steps was passed over")
	}
	if err := run([]migration{step(v - 1), step(v), step(v + 1), step(v + 2)}, v+2); err != nil {
		t.Fatal(err)
	}
	if got := schemaOf(t, s); got != v+2 {
		t.Errorf("after the migration: schema %d, want %d", got, v+2)
	}
	bolt := rawOpen(t, s.Path(), true)
	var steps []string
	_ = bolt.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("sessions")).ForEach(func(k, _ []byte) error {
			steps = append(steps, string(k))
			return nil
		})
	})
	_ = bolt.Close()
	if want := []string{fmt.Sprintf("step %d", v), fmt.Sprintf("step %d", v+1)}; !slices.Equal(steps, want) {
		t.Errorf("steps run: %q, want %q", steps, want)
	}
	if want := []string{fmt.Sprintf("store %s: brought from schema %d to %d", s.Path(), v, v+2)}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	setSchema(t, s.Path(), schemaVersion)
}

// TestMigrateListing brings a store of version 1, which had no listing, to the present one. It is
// no less sound then, and lists what it listed.
func TestMigrateListing(t *testing.T) {
	s := storeOf(t, mustRead(t, richStore(t).Path())) // a copy, in which nothing runs
	for _, n := range []New{{Title: "zebra", Labels: map[string]string{"a": "1", "b": ""}}, {Title: "Ape", Hidden: true}} {
		mustCreate(t, s, n)
	}
	all := Filter{Hidden: true, Archived: true, Sort: SortTitle}
	want, err := s.List(t.Context(), all)
	if err != nil || len(want) < 5 {
		t.Fatalf("List = %d, %v", len(want), err)
	}
	bolt := rawOpen(t, s.Path(), false)
	err = bolt.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("listing")) })
	if err := errors.Join(err, bolt.Close()); err != nil {
		t.Fatal(err)
	}
	setSchema(t, s.Path(), 1)
	got, err := s.List(t.Context(), all)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("after the migration: %v, %v\nbefore: %v", got, err, want)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestMigrateImports brings a store of version 2, which knew no imports, to the present one.
func TestMigrateImports(t *testing.T) {
	s := openStoreIn(t, filepath.Join(t.TempDir(), "store"), Options{})
	mustCreate(t, s, New{Title: "old"})
	bolt := rawOpen(t, s.Path(), false)
	err := bolt.Update(func(tx *bbolt.Tx) error {
		return errors.Join(tx.DeleteBucket([]byte("imports")), tx.DeleteBucket([]byte("imported")))
	})
	if err := errors.Join(err, bolt.Close()); err != nil {
		t.Fatal(err)
	}
	setSchema(t, s.Path(), 2)
	if made := mustImport(t, s, importedSeven); made != 1 {
		t.Errorf("%d conversations were imported, want 1", made)
	}
}

// TestMigrateAnswers brings a store of version 4, which knew no answers, to the present one.
func TestMigrateAnswers(t *testing.T) {
	s := openStoreIn(t, filepath.Join(t.TempDir(), "store"), Options{})
	c := mustCreate(t, s, New{})
	l := mustLock(t, s, c.ID)
	mustAppend(t, l, TurnStart{}, TurnEnd{State: StateOK})
	bolt := rawOpen(t, s.Path(), false)
	err := bolt.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("answers")) })
	if err := errors.Join(err, bolt.Close()); err != nil {
		t.Fatal(err)
	}
	setSchema(t, s.Path(), 4)
	// A run of the earlier version could store nothing more.
	for _, look := range []func() error{
		func() error { _, err := s.Get(t.Context(), c.ID); return err },
		func() error { _, err := s.Create(t.Context(), New{}); return err },
	} {
		err := look()
		if !errors.As(err, new(*BusyError)) || schemaOf(t, s) != 4 {
			t.Errorf("beside a run: %v, schema %d", err, schemaOf(t, s))
		}
	}
	mustNot(t, l.Close())
	if a, ok, err := s.Answer(t.Context(), Digest{1}, 0); ok || err != nil {
		t.Errorf("Answer = %v, %v, %v, want none", a, ok, err)
	}
	l = mustLock(t, s, c.ID)
	mustAppend(t, l, TurnStart{}, TurnEnd{State: StateOK, Asked: Digest{1}})
	if a, ok, err := s.Answer(t.Context(), Digest{1}, c.ID); a != (Answer{c.ID, 2}) || !ok || err != nil {
		t.Errorf("Answer = %v, %v, %v, want turn 2", a, ok, err)
	}
}

// TestMigrateMembers: programs that write version 5 can drop members of a conversation, and so they
// refuse the store from now on.
func TestMigrateMembers(t *testing.T) {
	s := openStoreIn(t, filepath.Join(t.TempDir(), "store"), Options{})
	mustCreate(t, s, New{})
	setSchema(t, s.Path(), 5)
	mustCreate(t, s, New{})
	if got := schemaOf(t, s); got <= 5 {
		t.Errorf("schema %d, want a later one than 5", got)
	}
}

// TestReadEarlier: who may only read reads a store of an earlier version if its migration changes
// nothing in it, and leaves it as it is.
func TestReadEarlier(t *testing.T) {
	s := openStoreIn(t, filepath.Join(t.TempDir(), "store"), Options{})
	c := mustCreate(t, s, New{Title: "old"})
	ro, err := Open(filepath.Dir(s.Path()), Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range migrations {
		setSchema(t, s.Path(), uint64(m.from))
		got, err := ro.Get(t.Context(), c.ID)
		if m.from < readsVersion {
			checkError(t, "Get", err, &SchemaError{Path: s.Path(), Have: m.from, Want: schemaVersion})
		} else if err != nil || got.Title != "old" || m.run != nil || len(m.makes) > 0 {
			t.Errorf("schema %d: Get = %+v, %v", m.from, got, err)
		}
		if have := schemaOf(t, s); have != uint64(m.from) {
			t.Errorf("schema %d after a read, want %d", have, m.from)
		}
	}
	setSchema(t, s.Path(), schemaVersion)
}

// TestMigrateImported brings a store of version 3 to the present one, in which a conversation that
// was imported again has lost which delegations it has not made.
func TestMigrateImported(t *testing.T) {
	s := openStoreIn(t, filepath.Join(t.TempDir(), "store"), Options{})
	root := mustCreate(t, s, New{})
	for again := range 2 {
		l := mustLock(t, s, root.ID)
		mustAppend(t, l, TurnStart{})
		delegate(t, l, "c", 0, 7, nil)
		mustAppend(t, l, TurnEnd{State: StateOK})
		mustNot(t, l.Close())
		if again == 0 {
			lines := mustExport(t, s, root.ID)
			if _, err := s.Remove(t.Context(), root.ID, RemoveOptions{Cascade: true}); err != nil {
				t.Fatal(err)
			}
			mustImport(t, s, lines)
		}
	}
	mustNot(t, s.f.write(t.Context(), func(t *tx) error {
		r, err := t.Load(root.ID)
		if err != nil {
			return err
		}
		r.After = 0
		return t.Save(root.ID, r)
	}))
	if err := s.Check(t.Context()); err == nil {
		t.Error("what is lost is not missed")
	}
	setSchema(t, s.Path(), 3)
	if _, err := s.Get(t.Context(), root.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func schemaOf(t testing.TB, s *Store) uint64 {
	t.Helper()
	bolt := rawOpen(t, s.Path(), true)
	defer func() { _ = bolt.Close() }()
	var v uint64
	_ = bolt.View(func(tx *bbolt.Tx) error {
		v = db.Num(tx.Bucket([]byte("meta")).Get([]byte("schema")))
		return nil
	})
	return v
}

func mustRead(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// makeWorkspace makes a folder with a .jp folder in it.
func makeWorkspace(t testing.TB, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(path, ".jp"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
