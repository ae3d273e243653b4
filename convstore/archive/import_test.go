package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"jp/convstore"
	"jp/convstore/internal/db"
	"jp/convstore/internal/page"
	"jp/convstore/internal/test/storetest"
	"jp/convstore/usage"
	"jp/tools/jsondoc"
)

// exportLines returns an export of everything.
func exportLines(t testing.TB, s *convstore.Store) string {
	t.Helper()
	roots, err := s.List(t.Context(), convstore.Filter{Roots: true, Hidden: true, Archived: true})
	if err != nil {
		t.Fatal(err)
	}
	var ids []convstore.ID
	for _, c := range roots {
		ids = append(ids, c.ID)
	}
	return exportSome(t, s, true, ids...)
}

func exportSome(t testing.TB, s *convstore.Store, cascade bool, ids ...convstore.ID) string {
	t.Helper()
	var b bytes.Buffer
	w := NewLineWriter(&b)
	for p, err := range Export(t.Context(), s.View, ids, cascade) {
		if err == nil {
			err = w.Write(p)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func importLines(t testing.TB, s *convstore.Store, lines string, o ImportOptions) (ImportResult, error) {
	t.Helper()
	return Import(t.Context(), s, ReadLines(strings.NewReader(lines), "f"), o)
}

func importAll(t testing.TB, s *convstore.Store, lines string, o ImportOptions) ImportResult {
	t.Helper()
	res, err := importLines(t, s, lines, o)
	if err == nil {
		err = s.Check(t.Context())
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, lines)
	}
	return res
}

func memoryStore(t *testing.T) (s *convstore.Store, remove func()) {
	t.Helper()
	dir := storetest.MemoryDir(t)
	s, err := convstore.Open(filepath.Join(dir, "store"), convstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s, func() { _ = os.RemoveAll(dir) }
}

// TestExportImportIdentity fills a store by chance, takes it to another one and compares what the
// two export: every byte of it. Importing once more changes nothing.
func TestExportImportIdentity(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		from, done := memoryStore(t)
		defer done()
		fillByChance(t, rt, from)
		lines := exportLines(t, from)
		to, done := memoryStore(t)
		defer done()
		o := ImportOptions{batch: rapid.IntRange(1, 30).Draw(rt, "batch")}
		res := importAll(t, to, lines, o)
		if again := exportLines(t, to); again != lines {
			rt.Fatalf("exported again: %s", firstDifference(again, lines))
		}
		before := storetest.Read(t, to.Path())
		same := importAll(t, to, lines, o)
		if len(same.Made) != 0 || len(same.Same) != len(res.Made) || !bytes.Equal(before, storetest.Read(t, to.Path())) {
			rt.Fatalf("importing again: %+v, and the file is the same: %v", same, bytes.Equal(before, storetest.Read(t, to.Path())))
		}
		if same := importAll(t, from, lines, o); len(same.Made) != 0 {
			rt.Fatalf("importing where it is from: %+v", same)
		}
		fresh := importAll(t, to, lines, ImportOptions{NewIDs: true, batch: o.batch})
		if len(fresh.Made) != len(res.Made) || fresh.Events != res.Events {
			rt.Fatalf("with new ids: %+v, want as many as %+v", fresh, res)
		}
	})
}

// TestImportRemoved removes conversations that delegated and brings them back from an export of
// their own: the store is sound, nothing counts twice, and another export is the same, as often as
// one likes.
func TestImportRemoved(t *testing.T) {
	for _, test := range []struct {
		name   string
		remove func(root, mid, leaf convstore.ID) (convstore.ID, convstore.RemoveOptions)
		whole  bool // nothing else of the tree is left
	}{
		{"all", func(root, _, _ convstore.ID) (convstore.ID, convstore.RemoveOptions) {
			return root, convstore.RemoveOptions{Cascade: true}
		}, true},
		{"the root alone", func(root, _, _ convstore.ID) (convstore.ID, convstore.RemoveOptions) {
			return root, convstore.RemoveOptions{Promote: true}
		}, false},
		{"a caller in the middle", func(_, mid, _ convstore.ID) (convstore.ID, convstore.RemoveOptions) {
			return mid, convstore.RemoveOptions{Promote: true}
		}, false},
		{"a caller and those below it", func(_, mid, _ convstore.ID) (convstore.ID, convstore.RemoveOptions) {
			return mid, convstore.RemoveOptions{Cascade: true}
		}, false},
		{"a leaf", func(_, _, leaf convstore.ID) (convstore.ID, convstore.RemoveOptions) {
			return leaf, convstore.RemoveOptions{}
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := storetest.OpenIn(t, filepath.Join(storetest.MemoryDir(t), "store"), convstore.Options{})
			nano := int64(5)
			root := storetest.Lock(t, s, storetest.Create(t, s, convstore.New{Title: "root"}).ID)
			storetest.Append(t, root, convstore.TurnStart{})
			mid := storetest.Delegate(t, root, "a", 0, 1000, &nano)
			inner := storetest.Lock(t, s, mid)
			leaf := storetest.Delegate(t, inner, "b", 0, 300, &nano)
			storetest.NoError(t, inner.Close())
			storetest.Delegate(t, root, "c", 0, 7, &nano)
			storetest.Append(t, root, convstore.TurnEnd{State: convstore.StateOK})
			storetest.NoError(t, root.Close())
			used := totalInput(t, s)

			removed, o := test.remove(root.ID(), mid, leaf)
			lines := exportSome(t, s, !o.Promote, removed)
			for range 2 {
				if _, err := s.Remove(t.Context(), removed, o); err != nil {
					t.Fatal(err)
				}
				if got := totalInput(t, s); got != used {
					t.Errorf("removed: %d tokens were used, want %d", got, used)
				}
				importAll(t, s, lines, ImportOptions{})
				if got := totalInput(t, s); got != used {
					t.Errorf("brought back: %d tokens were used, want %d", got, used)
				}
			}
			if again := exportSome(t, s, true, removed); test.whole && again != lines {
				t.Errorf("exported again: %s", firstDifference(again, lines))
			}
			// What was made in the turn in which it was removed counts no more, also below one that
			// is asked by hand.
			below, err := s.Below(t.Context(), removed)
			storetest.NoError(t, err)
			storetest.NoError(t, s.Inside(db.Room{}).WriteOnce(t.Context(), func(tx *convstore.Tx) error { // as older versions imported it, without a count
				r, err := tx.Load(removed)
				if err != nil {
					return err
				}
				r.Made = nil
				return tx.Save(removed, r)
			}))
			var made [2]int // by the caller, in the session
			enough := errors.New("enough")
			if _, err := below.Reserve(t.Context(), func(st convstore.Standing) ([]convstore.Child, error) {
				made[0] = st.Calls
				if removed == root.ID() {
					made[1] = st.Children
				}
				return nil, enough
			}); !errors.Is(err, enough) {
				t.Fatal(err)
			}
			if made != [2]int{} {
				t.Errorf("brought back: %v in its turn, want nothing", made)
			}
			// What happens from now on is counted from now on.
			back := storetest.Lock(t, s, removed)
			storetest.Append(t, back, convstore.TurnStart{})
			storetest.Delegate(t, back, "a", 0, 11, &nano)
			storetest.NoError(t, back.Close())
			if err := s.Check(t.Context()); err != nil {
				t.Error(err)
			}
			if got := totalInput(t, s); got != used+11 {
				t.Errorf("after another call: %d tokens were used, want %d", got, used+11)
			}
		})
	}
}

// TestImportOfRunning imports an export of a tree that runs, and later one of what it has become, in
// place of the first: everything is as the last one says, and importing that again changes nothing.
func TestImportOfRunning(t *testing.T) {
	s, to := storetest.Open(t), storetest.Open(t)
	remove := func(s *convstore.Store, id convstore.ID) {
		_, err := s.Remove(t.Context(), id, convstore.RemoveOptions{Cascade: true})
		storetest.NoError(t, err)
	}
	again := func(s *convstore.Store, lines string) {
		t.Helper()
		importAll(t, s, lines, ImportOptions{})
		if res := importAll(t, s, lines, ImportOptions{}); len(res.Made) != 0 {
			t.Errorf("imported again: made %v", res.Made)
		}
	}
	root := storetest.Lock(t, s, storetest.Create(t, s, convstore.New{}).ID)
	storetest.Append(t, root, convstore.TurnStart{})
	rs, err := root.Below().Reserve(t.Context(), storetest.Admit(convstore.Child{Call: "a"}))
	storetest.NoError(t, err)
	running := exportSome(t, s, true, root.ID())
	child, err := root.Below().Log(t.Context(), rs[0])
	storetest.NoError(t, err)
	storetest.Append(t, child, convstore.TurnStart{}, convstore.ModelCall{Model: "m", Usage: convstore.Usage{Input: 7}}, convstore.TurnEnd{State: convstore.StateOK})
	storetest.NoError(t, child.Close())
	_, err = root.Below().Settle(t.Context(), rs[0], convstore.Outcome{State: convstore.StateOK})
	storetest.NoError(t, err)
	storetest.Append(t, root, convstore.TurnEnd{State: convstore.StateOK})
	storetest.NoError(t, root.Close())
	ended := exportSome(t, s, true, root.ID())

	again(to, running)
	remove(to, root.ID())
	again(to, ended)
	if got := exportSome(t, to, true, root.ID()); got != ended {
		t.Errorf("exported again: %s", firstDifference(got, ended))
	}
	if got := totalInput(t, to); got != 7 {
		t.Errorf("%d tokens were used, want 7", got)
	}
	// The store where it ran knows better what was used.
	remove(s, root.ID())
	again(s, running)
	if ds, err := s.Delegations(t.Context(), root.ID()); err != nil || len(ds) != 1 || ds[0].Own.Input != 7 {
		t.Errorf("where it ran, its ledger has %+v, %v; want one delegation that used 7 tokens", ds, err)
	}
	// A turn that began after its conversation was exported has made a delegation that was exported.
	again(to, importFile(importLine("5", "")+importEvents(1)+strings.Replace(importDelegation, `"session":1`, `"session":2`, 1)))
}

// TestImportOlder imports archives of one tree in turn, each after the conversations of the one before
// were removed, also an earlier one after a later one. The store is sound, an archive can be imported
// twice, and no use that was known is forgotten.
func TestImportOlder(t *testing.T) {
	tokens := func(t *testing.T, n int64, top convstore.ID, archives ...string) {
		t.Helper()
		to, most := storetest.Open(t), int64(0)
		for i, lines := range slices.Concat(archives, archives, archives[:1]) {
			importAll(t, to, lines, ImportOptions{})
			if res := importAll(t, to, lines, ImportOptions{}); len(res.Made) != 0 {
				t.Errorf("archive %d again: made %v", i, res.Made)
			}
			spent, err := usage.Spent(t.Context(), to.View, top)
			storetest.NoError(t, err)
			used := int64(0)
			for _, c := range spent.Charges {
				used += c.Usage.Input
			}
			if most = max(most, used); used != most {
				t.Errorf("archive %d: its root has used %d tokens, and %d before", i, used, most)
			}
			_, err = to.Remove(t.Context(), top, convstore.RemoveOptions{Cascade: true})
			storetest.NoError(t, err)
			storetest.NoError(t, to.Check(t.Context()))
		}
		if got := totalInput(t, to); got != n {
			t.Errorf("%d tokens are known to be used, want %d", got, n)
		}
	}
	s := storetest.Open(t)
	root := storetest.Lock(t, s, storetest.Create(t, s, convstore.New{}).ID)
	storetest.Append(t, root, convstore.TurnStart{})
	at, ids := root, []convstore.ID{root.ID()}
	for i, call := range []string{"a", "b", "c", "d"} {
		ids = append(ids, storetest.Delegate(t, at, call, 0, []int64{1000, 100, 10, 1}[i], nil))
		storetest.NoError(t, at.Close())
		at = storetest.Lock(t, s, ids[i+1])
	}
	storetest.NoError(t, at.Close())
	whole := exportSome(t, s, true, ids[1])
	_, err := s.Remove(t.Context(), ids[2], convstore.RemoveOptions{Promote: true})
	storetest.NoError(t, err)
	part := exportSome(t, s, true, ids[1]) // without the delegation by ids[2] that the one by ids[3] is within
	t.Run("without a caller", func(t *testing.T) { tokens(t, 111, ids[1], part, whole) })

	second := strings.Replace(importDelegation, `"call":"`, `"within":1,"call":"x`, 1)
	third := strings.Replace(importDelegation, `"call":"`, `"within":2,"call":"`, 1)
	t.Run("one delegation twice", func(t *testing.T) {
		tokens(t, 7, 5, importFile(importLine("5", "")+importEvents(1)+importDelegation+second+third))
	})
	t.Run("within one that was made here", func(t *testing.T) {
		s := storetest.Open(t)
		root := storetest.Lock(t, s, storetest.Create(t, s, convstore.New{}).ID)
		storetest.Append(t, root, convstore.TurnStart{})
		rs, err := root.Below().Reserve(t.Context(), storetest.Admit(convstore.Child{Call: "a"}))
		storetest.NoError(t, err)
		child, err := root.Below().Log(t.Context(), rs[0])
		storetest.NoError(t, err)
		storetest.Append(t, child, convstore.TurnStart{})
		storetest.Delegate(t, child, "b", 0, 10, nil)
		storetest.NoError(t, child.Close())
		_, err = root.Below().Settle(t.Context(), rs[0], convstore.Outcome{State: convstore.StateOK})
		storetest.NoError(t, err)
		storetest.NoError(t, root.Close())
		storetest.NoError(t, s.Edit(t.Context(), child.ID(), func(c *convstore.Conversation) error { c.Parent = 0; return nil }))
		lines := exportSome(t, s, true, root.ID())
		_, err = s.Remove(t.Context(), root.ID(), convstore.RemoveOptions{Cascade: true})
		storetest.NoError(t, err)
		last := lines[strings.LastIndex(lines, `{"delegation":`):strings.LastIndex(lines, `{"end":`)]
		forged := strings.NewReplacer(`"call":"b"`, `"call":"c"`, `"within":1`, `"within":2`).Replace(last)
		lines = strings.Replace(lines, last, last+forged, 1)
		importAll(t, s, lines, ImportOptions{})
		if res := importAll(t, s, lines, ImportOptions{}); len(res.Made) != 0 {
			t.Errorf("imported again: made %v", res.Made)
		}
	})
	t.Run("before a run", func(t *testing.T) {
		s := storetest.Open(t)
		root := storetest.Lock(t, s, storetest.Create(t, s, convstore.New{}).ID)
		storetest.Append(t, root, convstore.TurnStart{})
		child := storetest.Delegate(t, root, "a", 0, 100, nil)
		early := exportSome(t, s, true, root.ID())
		storetest.Delegate(t, root, "b", child, 1000, nil)
		storetest.NoError(t, root.Close())
		_, err := s.Remove(t.Context(), root.ID(), convstore.RemoveOptions{Cascade: true})
		storetest.NoError(t, err)
		importAll(t, s, early, ImportOptions{})
		if got := totalInput(t, s); got != 1100 {
			t.Errorf("%d tokens are known to be used, want 1100", got)
		}
	})
	open := strings.NewReplacer(`"state":"ok","reason":""`, `"state":"lost","reason":"`+reasonOpen+`"`, `_tokens":7`, `_tokens":0`).Replace(importDelegation)
	t.Run("while it ran", func(t *testing.T) {
		one, two := importLine("5", "")+importEvents(1), strings.Replace(importDelegation, `"call":"`, `"call":"x`, 1)
		two = strings.Replace(two, "jp-c6", "jp-c7", 1)
		tokens(t, 14, 5, importFile(one+importDelegation+two), importFile(one+open), importFile(one+two+importDelegation))
	})
}

// TestImportParts imports what was removed of the tree of a sub-agent, which is here still.
func TestImportParts(t *testing.T) {
	s := storetest.Open(t)
	root := storetest.Lock(t, s, storetest.Create(t, s, convstore.New{}).ID)
	storetest.Append(t, root, convstore.TurnStart{})
	at, ids := root, []convstore.ID(nil)
	for _, call := range []string{"a", "b", "c", "d"} {
		ids = append(ids, storetest.Delegate(t, at, call, 0, 1, nil))
		storetest.NoError(t, at.Close())
		at = storetest.Lock(t, s, ids[len(ids)-1])
	}
	storetest.NoError(t, at.Close())
	lines := exportSome(t, s, true, ids[0])
	_, err := s.Remove(t.Context(), ids[1], convstore.RemoveOptions{Cascade: true})
	storetest.NoError(t, err)
	if res := importAll(t, s, lines, ImportOptions{}); len(res.Made) != 3 || len(res.Same) != 1 {
		t.Errorf("made %v, the same %v; want three and one", res.Made, res.Same)
	}
}

// TestImportAbove imports what was below another conversation when it was exported, and is above that
// one now.
func TestImportAbove(t *testing.T) {
	s := storetest.Open(t)
	parent := storetest.Create(t, s, convstore.New{}).ID
	child, err := s.Fork(t.Context(), parent, convstore.Fork{})
	storetest.NoError(t, err)
	id := importAll(t, s, exportSome(t, s, true, child.ID), ImportOptions{NewIDs: true}).Made[0].ID
	storetest.NoError(t, s.Edit(t.Context(), parent, func(c *convstore.Conversation) error { c.Parent = id; return nil }))
	lines := exportSome(t, s, true, id)
	if res := importAll(t, s, lines, ImportOptions{}); len(res.Made) != 0 {
		t.Errorf("imported again: made %v", res.Made)
	}
	_, err = s.Remove(t.Context(), id, convstore.RemoveOptions{Cascade: true})
	storetest.NoError(t, err)
	importAll(t, s, lines, ImportOptions{})
	if got := exportSome(t, s, true, id); got != lines {
		t.Errorf("exported again: %s", firstDifference(got, lines))
	}
}

// TestImportUnbegun imports a conversation whose last run ended before its turn began.
func TestImportUnbegun(t *testing.T) {
	s, to := storetest.Open(t), storetest.Open(t)
	root := storetest.Lock(t, s, storetest.Create(t, s, convstore.New{}).ID)
	storetest.Append(t, root, convstore.TurnStart{})
	child := storetest.Delegate(t, root, "a", 0, 1, nil)
	rs, err := root.Below().Reserve(t.Context(), storetest.Admit(convstore.Child{Call: "b", ID: child}))
	storetest.NoError(t, err)
	_, err = root.Below().Settle(t.Context(), rs[0], convstore.Outcome{State: convstore.StateTimeout, Reason: "waited"})
	storetest.NoError(t, err)
	lines := exportSome(t, s, true, root.ID())
	importAll(t, to, lines, ImportOptions{})
	if res := importAll(t, to, lines, ImportOptions{}); len(res.Made) != 0 {
		t.Errorf("imported again: made %v", res.Made)
	}
	if got := storetest.Get(t, to.View, child); string(got.Status) != string(convstore.StateTimeout) || got.Reason != "waited" {
		t.Errorf("status %q, %q; want that of the run that never began", got.Status, got.Reason)
	}
}

// totalInput adds up what the whole store says was used.
func totalInput(t *testing.T, s *convstore.Store) (n int64) {
	t.Helper()
	for c, err := range usage.Charges(t.Context(), s, time.Time{}, nil) {
		if err != nil {
			t.Fatal(err)
		}
		n += c.Usage.Input
	}
	return n
}

// chanceBodies are bodies as they come, of this version and others.
func chanceBodies() *rapid.Generator[convstore.Body] {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z ]{0,20}\x1b\[31m[\x{202e}\n\t"\\<>&]{0,3}`))
	raw := rapid.SampledFrom([]string{
		`{"type":"later","x":[1,2.50,1e3]}`, "{\n  \"type\": \"later\",\r\n  \"deep\": {\"a\": []}\n}", `{"type":"chat_request","content":"x","added":"\u00e9\/"}`,
		"{\"type\":\"later\",\"bytes\":\"\xff\xfe\"}", `{"type":"tool_call_response","id":7}`, ` {"type":"turn_start","more":1} `, `{"a":1,"type":"note"}`,
	})
	return rapid.Custom(func(rt *rapid.T) convstore.Body {
		switch rapid.IntRange(0, 7).Draw(rt, "body") {
		case 0, 1:
			return convstore.TurnStart{}
		case 2:
			return convstore.UserMessage{Text: text.Draw(rt, "text")}
		case 3:
			return convstore.AssistantMessage{Text: text.Draw(rt, "text")}
		case 4:
			return convstore.ToolCall{ID: "c", Name: "n", Arguments: []byte(rapid.SampledFrom([]string{`{"a": 1}`, `{broken`}).Draw(rt, "args"))}
		case 5:
			n := rapid.OneOf(rapid.Int64Range(0, 9), rapid.Int64Range(1<<50, math.MaxInt64)).Draw(rt, "cost")
			return convstore.ModelCall{Model: "m", Usage: convstore.Usage{Input: n}, CostNano: &n}
		case 6:
			return convstore.TurnEnd{State: rapid.SampledFrom(convstore.States()).Draw(rt, "state"), Reason: "r"}
		}
		b := raw.Draw(rt, "raw")
		var of struct{ Type string }
		storetest.NoError(rt, json.Unmarshal([]byte(b), &of))
		return convstore.Opaque{Name: of.Type, Raw: []byte(b)}
	})
}

func fillByChance(t *testing.T, rt *rapid.T, s *convstore.Store) {
	var ids []convstore.ID
	calls := 0
	for range rapid.IntRange(1, 6).Draw(rt, "conversations") {
		var id convstore.ID
		switch how := rapid.IntRange(0, 3).Draw(rt, "how"); {
		case len(ids) == 0 || how == 0:
			c, err := s.Create(t.Context(), convstore.New{
				Title: rapid.String().Draw(rt, "title"), Hidden: rapid.Bool().Draw(rt, "hidden"), Profile: "p", Role: "main", Model: "m",
				Labels: map[string]string{"k": "v"},
				Config: convstore.Config{JSON: []byte(rapid.SampledFrom([]string{"", "{}", "{ }", "{\"a\":\n\t[ 0]}\n"}).Draw(rt, "config")), Tools: []string{"t"}},
			})
			storetest.NoError(rt, err)
			id = c.ID
		case how == 1:
			c, err := s.Fork(t.Context(), rapid.SampledFrom(ids).Draw(rt, "source"), convstore.Fork{ExpiresAt: time.Now().Add(time.Hour)})
			storetest.NoError(rt, err)
			id = c.ID
		default:
			l, err := s.Lock(t.Context(), rapid.SampledFrom(ids).Draw(rt, "caller"))
			storetest.NoError(rt, err)
			calls++
			tokens := int64(10)
			rs, err := l.Below().Reserve(t.Context(), storetest.Admit(convstore.Child{
				Call: fmt.Sprintf("call %d", calls), Hidden: true, Role: "subagent", Profile: "q",
				Grant: convstore.Grant{Tools: []string{"x"}, Budget: convstore.Budget{Tokens: &tokens}}, Config: convstore.Config{JSON: []byte("{}")},
			}))
			storetest.NoError(rt, err)
			id = rs[0].Child.ID
			if rapid.Bool().Draw(rt, "settled") {
				_, err = l.Below().Settle(t.Context(), rs[0], convstore.Outcome{State: convstore.StatePartial, Reason: "r"})
			} else {
				err = rs[0].Release()
			}
			storetest.NoError(rt, errors.Join(err, l.Close()))
		}
		ids = append(ids, id)
		c, err := s.Get(t.Context(), id)
		if storetest.NoError(rt, err); c.Status == convstore.StatusLost {
			continue // to append would settle its delegation
		}
		l, err := s.Lock(t.Context(), id)
		storetest.NoError(rt, err)
		for _, b := range rapid.SliceOfN(chanceBodies(), 0, 12).Draw(rt, "bodies") {
			if _, spend := b.(convstore.ModelCall); spend && c.Link == convstore.DelegationLink {
				continue // only its delegations pay for calls
			}
			storetest.NoError(rt, l.Append(t.Context(), convstore.Event{Body: b, Time: time.Unix(rapid.Int64Range(-9, 9e9).Draw(rt, "s"), 5)}))
		}
		storetest.NoError(rt, l.Close())
	}
}

// importLine and importEvent are lines of small exports.
func importLine(id, rest string) string {
	return fmt.Sprintf(`{"conversation":{"id":"jp-c%s"%s}}`, id, rest) + "\n"
}

const importEvent = `{"event":{"id":"e%d","time":"2026-01-02T03:04:05.000000006Z","body":{"type":"turn_start"}}}` + "\n"

func importEvents(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, importEvent, i+1)
	}
	return b.String()
}

func importFile(lines string) string {
	return "{\"jp_export\":1}\n" + lines + fmt.Sprintf("{\"end\":{\"conversations\":%d,\"events\":%d}}\n",
		strings.Count(lines, `{"conversation":`), strings.Count(lines, `{"event":`))
}

const importDelegation = `{"delegation":{"id":"","root_id":"jp-c5","caller_id":"jp-c5","child_id":"jp-c6","call":"c1","kind":"k",` +
	`"profile":"p","profile_hash":"h","model":"m","depth":1,"grant":{"tools":null,"max_depth":0,"tokens":null,"cost_nano":null,` +
	`"caps":{"tokens":null,"cost_nano":null}},"turn":1,"child_turn":1,"fresh":true,"session":1,"reserved_at":"2026-01-02T03:04:05Z",` +
	`"ended_at":"2026-01-02T03:04:06Z","state":"ok","reason":"","own":{"input_tokens":7,"output_tokens":0,"cache_read_tokens":0,` +
	`"cache_write_tokens":0,"cost_nano":3},"total":{"input_tokens":7,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,` +
	`"cost_nano":3},"tools_allowed":0,"tools_total":0,"tools_denied":0}}` + "\n"

// startTaking begins an import and leaves it in the middle, its lock held.
func startTaking(t testing.TB, s *convstore.Store, lines string) *importer {
	t.Helper()
	im := &importer{in: s.Inside(db.Room{}), at: make(map[convstore.ID]*arrival), ledgers: make(map[convstore.ID]int)}
	for p, err := range ReadLines(strings.NewReader(lines), "f") {
		if err == nil {
			err = im.add(t.Context(), p)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := im.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return im
}

// TestImportCutOff leaves an import in the middle, as a kill does.
func TestImportCutOff(t *testing.T) {
	s := storetest.OpenIn(t, filepath.Join(t.TempDir(), "store"), convstore.Options{})
	storetest.Create(t, s, convstore.New{Title: "mine"})
	before := exportLines(t, s)
	lines := importFile(importLine("5", "") + importEvents(3) + importDelegation)
	im := startTaking(t, s, lines)
	if err := s.Check(t.Context()); err != nil {
		t.Fatalf("while it runs: %v", err)
	}
	_, err := s.Get(t.Context(), 5)
	storetest.Error(t, "Get", err, &convstore.NotFoundError{ID: 5})
	if got := exportLines(t, s); got != before {
		t.Errorf("while it runs: %s", got)
	}
	for p, err := range Rescue(t.Context(), s, func(err error) { t.Errorf("while it runs: lost: %v", err) }) {
		if err != nil || p.Event != nil || p.Conversation.ID == 5 {
			t.Errorf("while it runs: salvaged: %+v, %v", p, err)
		}
	}
	if _, err := importLines(t, s, lines, ImportOptions{}); !errors.As(err, new(*convstore.BusyError)) {
		t.Errorf("the same beside it: %v, want a BusyError", err)
	}
	if err := im.lock.Drop(); err != nil {
		t.Fatal(err)
	}
	if res := importAll(t, s, importFile(importLine("6", "")), ImportOptions{}); len(res.Made) != 1 {
		t.Errorf("after it: %+v", res)
	}
	nothingStaged(t, s)
	// Many conversations are removed in few transactions.
	var many strings.Builder
	for i := range 500 {
		many.WriteString(importLine(fmt.Sprint(1000+i), "") + importEvents(1))
	}
	if im = startTaking(t, s, importFile(many.String())); im.lock.Drop() != nil {
		t.Fatal("its lock is gone")
	}
	sofar := transactions(t, s)
	importAll(t, s, importFile(importLine("6", "")), ImportOptions{})
	if n := transactions(t, s) - sofar; n > 5 {
		t.Errorf("sweeping 500 conversations took %d transactions", n)
	}
	nothingStaged(t, s)
	if im = startTaking(t, s, lines); im.lock.Drop() != nil {
		t.Fatal("its lock is gone")
	}
	if _, _, err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	nothingStaged(t, s)
}

// transactions returns how many a store has seen.
func transactions(t *testing.T, s *convstore.Store) uint64 {
	t.Helper()
	data := storetest.Read(t, s.Path())
	p, err := page.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return p.Transaction
}

// nothingStaged reports what an import has left.
func nothingStaged(t *testing.T, s *convstore.Store) {
	t.Helper()
	bolt := storetest.RawOpen(t, s.Path(), true)
	defer func() { _ = bolt.Close() }()
	_ = bolt.View(func(tx *bbolt.Tx) error {
		for _, name := range []string{"events", "event_ids", "turns", "imports", "delegations"} {
			if k, _ := tx.Bucket([]byte(name)).Cursor().First(); k != nil {
				t.Errorf("%s: %x is left", name, k)
			}
		}
		return nil
	})
}

// TestImportRefuses tries what must change nothing and say where it is.
func TestImportRefuses(t *testing.T) {
	s := storetest.OpenIn(t, filepath.Join(t.TempDir(), "store"), convstore.Options{})
	importAll(t, s, importFile(importLine("9", `,"title":"here"`)+importEvents(2)), ImportOptions{})
	before := exportLines(t, s)
	five := importLine("5", "") + importEvents(1)
	crowded := `{"type":"chat_request","content":"q","attachments":[` + strings.Repeat("{},", 1<<19) + "{}]}"
	for _, test := range []struct{ name, lines, want string }{
		{"nothing", "", "f: is empty"},
		{"no export", "{}\n", `f:1: not an export: its first line is not {"jp_export":1}`},
		{"the future", "{\"jp_export\":2}\n", "f:1: written by a newer version (export 2, this one knows 1)"},
		{"cut off", "{\"jp_export\":1}\n" + five, "f:3: ends before the last line of the export: it was cut off"},
		{"cut in a line", "{\"jp_export\":1}\n" + five[:60], "f:3: it ends in the middle"},
		{"fewer", "{\"jp_export\":1}\n" + five + `{"end":{"conversations":1,"events":2}}`,
			"f:4: the export says that it holds 1 conversations and 2 events, but it holds 1 and 1"},
		{"no JSON", importFile(five + "{\"conversation\":{\"id\":}}\n"), "f:4: column 23: invalid character '}' looking for beginning of value"},
		{"an unknown member", importFile(importLine("5", `,"future":1`)), `f:2: unknown field "future"`},
		{"a number for a conversation", importFile("{\"conversation\":5}\n"), "f:2: conversation: want an object, not a number"},
		{"a text for a truth", importFile(importLine("5", `,"hidden":"x"`)), "f:2: conversation.hidden: want true or false, not a string"},
		{"a list", importFile("[]\n"), "f:2: want an object, not a list"},
		{"a number for a type", importFile(importLine("5", "") + `{"event":{"id":"e","time":"2026-01-02T03:04:05Z","body":{"type":5}}}` + "\n"), "f:3: event: type: want a string, not a number"},
		{"many labels", importFile(importLine("5", `,"labels":{`+strings.Repeat(`"a":"",`, jsondoc.MaxValues)+`"b":""}`)), "f:2: more than 262144 values"},
		{"two values", importFile(importLine("5", "")[:31] + "}\n"), "f:2: column 32: more than one value"},
		{"a member twice", importFile(`{"conversation":{},"conversation":{}}` + "\n"), "f:2: conversation: is there twice"},
		{"an event of too many, in another form", importFile(importLine("5", "") + `{"event":{"body":` + crowded + `,"id":"e","time":"2026-01-02T03:04:05Z"}}` + "\n"), "f:3: more than 1048576 values"},
		{"a conversation of too many", importFile(`{"conversation":` + crowded + "}\n"), "f:2: more than 1048576 values"},
		{"an event too early", importFile(importEvents(1)), "f:2: an event before any conversation"},
		{"an event twice", importFile(five + importEvents(1)), `f:4: conversation jp-c5: event "e1" is there twice`},
		{"a conversation twice", importFile(five + five), "f:4: conversation jp-c5: is there twice, first at f:2"},
		{"a cycle", importFile(importLine("5", `,"parent_id":"jp-c6","link":"fork"`) + importLine("6", `,"parent_id":"jp-c5","link":"fork"`)),
			"f:2: conversation jp-c5: is its own ancestor"},
		{"its own parent", importFile(importLine("5", `,"parent_id":"jp-c5","link":"fork"`)), "f:2: conversation jp-c5: is its own ancestor"},
		{"an id out of range", importFile(importLine("92233720369", "")), `f:2: conversation "jp-c92233720369": its id is out of range`},
		{"no id", importFile(`{"conversation":{}}` + "\n"), `f:2: conversation "": its id is out of range`},
		{"a bad id", importFile(importLine("-5", "")), `f:2: conversation "jp-c-5": not found`},
		{"a depth", importFile(importLine("5", `,"depth":-1`)), "f:2: conversation jp-c5: depth -1 is out of range"},
		{"a time", importFile(importLine("5", `,"expires_at":"9999-01-01T00:00:00Z"`)), "f:2: conversation jp-c5: time 9999-01-01 00:00:00 +0000 UTC is out of range"},
		{"a link alone", importFile(importLine("5", `,"link":"fork"`)), `f:2: conversation jp-c5: parent "" and link "fork" contradict`},
		{"negative money", importFile(importLine("5", "") + `{"event":{"id":"e","time":"2026-01-02T03:04:05Z","body":{"type":"model_call","cost_nano":-1}}}` + "\n"),
			"f:3: usage or cost of -1 is out of range"},
		{"a state of no turn", importFile(importLine("5", "") + `{"event":{"id":"e","time":"2026-01-02T03:04:05Z","body":{"type":"turn_end","state":"\u001b[2Jok"}}}` + "\n"),
			`f:3: event "e": unknown state "\x1b[2Jok"`},
		{"no type", importFile(importLine("5", "") + `{"event":{"id":"e","time":"2026-01-02T03:04:05Z","body":{"typ":"x"}}}` + "\n"), "f:3: event: no type"},
		{"a deep body", importFile(importLine("5", "") + `{"event":{"id":"e","time":"2026-01-02T03:04:05Z","body":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "}}\n"),
			"f:3: event: invalid character '[' exceeded max depth"},
		{"a ledger of nobody", importFile(importDelegation), "f:2: a delegation in the ledger of jp-c5, but that conversation has not come before it"},
		{"an open delegation", importFile(five + strings.Replace(importDelegation, `"state":"ok"`, `"state":""`, 1)), `f:4: delegation by jp-c5: state "" has not ended`},
		{"a delegation of year -1", importFile(five + strings.Replace(importDelegation, "2026-01-02T03:04:06Z", "0000-01-01T00:00:00+14:00", 1)),
			"f:4: delegation by jp-c5: time 0000-01-01 00:00:00 +1400 +1400 is out of range"},
		{"a delegation that cost less than nothing", importFile(five + strings.Replace(importDelegation, `"cost_nano":3`, `"cost_nano":-3`, 1)),
			"f:4: delegation by jp-c5: usage or cost of -3 is out of range"},
		{"calls without a price", importFile(five + strings.Replace(importDelegation, `"cost_nano":3`, `"unpriced":2147483648,"cost_nano":3`, 1)),
			"f:4: delegation by jp-c5: 2147483648 calls of unknown price: out of range"},
		{"within itself", importFile(five + strings.Replace(importDelegation, `"state":"ok"`, `"within":1,"state":"ok"`, 1)),
			"f:4: delegation 1 of jp-c5: is within delegation 1, which has not come before it"},
		{"other events", importFile(five + importLine("9", `,"title":"here"`) + importEvents(3)), "conversation jp-c9: is here already, with other content"},
		{"another title", importFile(five + importLine("9", `,"title":"there"`) + importEvents(2)), "conversation jp-c9: is here already, with other content"},
	} {
		for _, batch := range []int{1, 1000} {
			_, err := importLines(t, s, test.lines, ImportOptions{batch: batch})
			if err == nil || err.Error() != test.want {
				t.Errorf("%s: Import() = %v\nwant %s", test.name, err, test.want)
			}
			if err := s.Check(t.Context()); err != nil {
				t.Fatalf("%s: %v", test.name, err)
			}
			if got := exportLines(t, s); got != before {
				t.Fatalf("%s: changed the store:\n%s", test.name, got)
			}
		}
	}
}

// TestImportVoid imports a tree whose child comes first and claims much.
func TestImportVoid(t *testing.T) {
	s := storetest.OpenIn(t, filepath.Join(t.TempDir(), "store"), convstore.Options{})
	grant := `,"role":"subagent","profile":"p","grant":{"tools":["sh"],"max_depth":5,"tokens":null,"cost_nano":null,"caps":{"tokens":null,"cost_nano":null}},"config":{"a":1},"tools":["sh"]`
	lines := importFile(importLine("6", `,"parent_id":"jp-c5","link":"delegation","depth":1`+grant) + importLine("5", `,"parent_id":"jp-c4","link":"fork"`+grant) +
		`{"event":{"id":"e1","time":"2026-01-02T03:04:05Z","body":{"type":"turn_start","limits":{"tokens":null,"cost_nano":null,"run":{"tokens":null,"cost_nano":null},"children":99}}}}` + "\n" +
		importDelegation)
	res := importAll(t, s, lines, ImportOptions{})
	if got, want := fmt.Sprint(res), "{[{jp-c6 jp-c6} {jp-c5 jp-c5}] [] 1 [{jp-c5 jp-c4}] [] 1}"; got != want {
		t.Errorf("Import() = %s, want %s", got, want)
	}
	child, err := s.Get(t.Context(), 6)
	if err != nil {
		t.Fatal(err)
	}
	if child.Parent != 5 || child.Link != convstore.ForkLink || child.Grant != nil || child.Role != "" || child.Profile != "" {
		t.Errorf("the child: %+v", child)
	}
	config, err := s.Config(t.Context(), 6)
	if err != nil || config.JSON != nil || config.Tools != nil {
		t.Errorf("its config: %+v, %v", config, err)
	}
	im, err := s.Imported(t.Context(), 6)
	if err != nil || im.Grant.Tools[0] != "sh" || string(im.Raw()) != `{"a":1}` || im.Role != "subagent" {
		t.Errorf("what it came with: %+v, %v", im, err)
	}
	scope, err := s.Below(t.Context(), 5)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := scope.Get(t.Context(), 6); !errors.As(err, new(*convstore.ScopeError)) {
		t.Errorf("in the scope of an agent: %v, want a ScopeError", err)
	}
	account, err := s.Account(t.Context(), 5)
	if err != nil || account.Limits != nil {
		t.Errorf("limits came along: %+v, %v", account.Limits, err)
	}
	spent, err := usage.Spent(t.Context(), s.View, 5)
	if err != nil || len(spent.Charges) != 1 || spent.Charges[0].Usage.Input != 7 || !spent.Charges[0].Recorded {
		t.Errorf("Spent() = %+v, %v; want what the delegation used", spent.Charges, err)
	}
}

// firstDifference shows the first line in which two texts differ.
func firstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d:\n%s\nwant:\n%s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(a), len(b))
}

// FuzzReadLines reads anything: what is no export is refused with its place, and what a store takes
// comes out of it again and goes in again.
func FuzzReadLines(f *testing.F) {
	five := importLine("5", `,"title":"\u001b[31m\u202e","config":{ "a":1},"tools":["x"]`)
	f.Add("")
	f.Add("{\"jp_export\":1}\n{\"end\":{\"conversations\":0,\"events\":0}}\n")
	f.Add(importFile(five + importEvents(2) + importDelegation))
	f.Add(importFile(importLine("6", `,"parent_id":"jp-c5","link":"delegation"`) + five))
	f.Add(importFile(five + `{"event":{"body":{"type":"later"},"time":"2026-01-02T03:04:05+02:00","id":"\u0041"}}` + "\n"))
	f.Add(importFile(five + `{"event":{"id":"e","time":"2026-01-02T03:04:05Z","body_base64":"eyJ0eXBlIjoieCJ9"}}` + "\n"))
	f.Add(importFile(five + `{"event":{"id":"e","time":"2026-01-02T03:04:05Z","body":{"type":"x"}},"more":{}}` + "\n"))
	f.Add(importFile(five + `{"event":{"id":"e","time":"2026-01-02T03:04:05Z","body": {"type":"note"} }}` + "\n"))
	f.Add(importFile(five + `{"event":{"id":"e","time":"2026-01-02T03:04:05Z","body":  {"type":"x"}}}` + "\n"))
	f.Add(importFile(five + `{"event":{"id":"e","time":"2026-01-02T03:04:05Z","body_base64":"CiB7InR5cGUiOiJ4In0="}}` + "\n"))
	f.Fuzz(func(t *testing.T, lines string) {
		s, done := memoryStore(t)
		defer done()
		res, err := importLines(t, s, lines, ImportOptions{})
		var wrong *ImportError
		if err != nil && !errors.As(err, &wrong) {
			t.Fatalf("Import() = %T %v, want an ImportError", err, err)
		}
		if err := s.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			if list, err := s.List(t.Context(), convstore.Filter{Hidden: true, Archived: true}); err != nil || len(list) > 0 {
				t.Fatalf("after %v there are %d conversations, %v", wrong, len(list), err)
			}
			return
		}
		for _, m := range res.Made {
			for _, e := range storetest.Events(t, s.View, m.ID, convstore.Range{}) {
				if data, err := json.Marshal(e); err != nil {
					t.Fatalf("event %d of %s: %v\n%s", e.Seq, m.ID, err, data)
				}
			}
		}
		out := exportLines(t, s)
		again, err := importLines(t, s, out, ImportOptions{})
		if err != nil || len(again.Same) != len(res.Made) || len(again.Made) != 0 {
			t.Fatalf("its export: %+v, %v\n%s", again, err, out)
		}
	})
}

// TestAppendOpaqueTurn appends a turn as a program does that knows only its JSON.
func TestAppendOpaqueTurn(t *testing.T) {
	s := storetest.OpenIn(t, filepath.Join(t.TempDir(), "store"), convstore.Options{})
	c := storetest.Create(t, s, convstore.New{})
	storetest.Append(t, storetest.Lock(t, s, c.ID), convstore.Opaque{Name: "turn_start", Raw: []byte(`{"type":"turn_start","x":1}`)})
	if c, err := s.Get(t.Context(), c.ID); err != nil || c.Turns != 1 {
		t.Errorf("turns = %d, %v; want 1", c.Turns, err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// BenchmarkImport imports 50,000 events of about 300 bytes in 50 conversations.
func BenchmarkImport(b *testing.B) {
	const conversations, each = 50, 1000
	var lines strings.Builder
	for i := range conversations {
		lines.WriteString(importLine(fmt.Sprint(i+100), ""))
		for j := range each {
			fmt.Fprintf(&lines, `{"event":{"id":"01%022d","time":"2026-01-02T03:04:05.123456789Z","body":{"type":"chat_response","message":"%s"}}}`+"\n",
				j, strings.Repeat("some words of an answer ", 10))
		}
	}
	text := importFile(lines.String())
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		b.StopTimer()
		s := storetest.OnDisk(b)
		b.StartTimer()
		if _, err := importLines(b, s, text, ImportOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(conversations*each*b.N)/b.Elapsed().Seconds(), "events/s")
}

// TestImportLatestID: a conversation without a time of its own is dated by its id.
func TestImportLatestID(t *testing.T) {
	s, done := memoryStore(t)
	defer done()
	importAll(t, s, importFile(importLine(fmt.Sprint(int64(maxExchangedID)), "")), ImportOptions{})
	c := storetest.Get(t, s.View, maxExchangedID)
	if got, want := c.CreatedAt.Year(), 2262; got != want {
		t.Errorf("made in %d, want %d", got, want)
	}
}

// TestImportInBatches imports pieces of which few are large, whatever makes them so. They are not
// kept all at once: they take one transaction more than small ones.
func TestImportInBatches(t *testing.T) {
	const n = 6
	large := strings.Repeat("x", importBatch/(n-1))
	var titles, labels, delegations strings.Builder
	for i := range n {
		titles.WriteString(importLine(fmt.Sprint(100+i), `,"title":"LARGE"`))
		labels.WriteString(importLine(fmt.Sprint(100+i), `,"labels":{"l":"LARGE"}`))
		delegations.WriteString(strings.Replace(importDelegation, `"reason":""`, `"reason":"LARGE"`, 1))
	}
	for name, lines := range map[string]string{
		"titles": titles.String(), "labels": labels.String(),
		"delegations": importLine("5", "") + importLine("6", `,"parent_id":"jp-c5","link":"delegation","depth":1`) + delegations.String(),
	} {
		var took [2]uint64
		for i, text := range []string{"small", large} {
			s := storetest.Open(t)
			storetest.Create(t, s, convstore.New{})
			before := transactions(t, s)
			importAll(t, s, importFile(strings.ReplaceAll(lines, "LARGE", text)), ImportOptions{})
			took[i] = transactions(t, s) - before
		}
		if took[1] != took[0]+1 {
			t.Errorf("%s: %d transactions, and %d of small ones", name, took[1], took[0])
		}
	}
}

// TestImportLongLine: a line of conversations, each the child of the one before, is not walked up
// for each of them; and what has expired is named.
func TestImportLongLine(t *testing.T) {
	const n = 30_000
	s, done := memoryStore(t)
	defer done() // checks the store
	var b strings.Builder
	for i := 1; i <= n; i++ {
		more := ""
		if i > 1 {
			more = fmt.Sprintf(`,"parent_id":"jp-c%d","link":"fork"`, i-1)
		}
		if i == n {
			more += `,"expires_at":"2001-01-01T00:00:00Z"`
		}
		b.WriteString(importLine(fmt.Sprint(i), more))
	}
	res := importAll(t, s, importFile(b.String()), ImportOptions{})
	if want := []convstore.ID{n}; len(res.Made) != n || !slices.Equal(res.Expired, want) {
		t.Errorf("Import() made %d, expired %v; want %d, %v", len(res.Made), res.Expired, n, want)
	}
	if c := storetest.Get(t, s.View, n); c.Depth != 0 || c.Root != 1 {
		t.Errorf("the last has depth %d below %s, want 0 below jp-c1", c.Depth, c.Root)
	}
}

// TestExportCrowded: an event of any number of values comes back, as the store has it.
func TestExportCrowded(t *testing.T) {
	s := storetest.Open(t)
	l := storetest.Lock(t, s, storetest.Create(t, s, convstore.New{}).ID)
	many := json.RawMessage("[" + strings.Repeat("0,", MaxValues) + "0]")
	storetest.Append(t, l, convstore.TurnStart{}, convstore.Reasoning{Opaque: many}, convstore.ToolCall{ID: "1", Name: "n", Arguments: many})
	_ = l.Close()
	lines := exportLines(t, s)
	to := storetest.Open(t)
	importAll(t, to, lines, ImportOptions{})
	if exportLines(t, to) != lines {
		t.Error("exported again: differs")
	}
}

// TestExportRemoved: what is removed below a conversation while that is exported is not there, and the
// rest is.
func TestExportRemoved(t *testing.T) {
	s := storetest.Open(t)
	root := storetest.Create(t, s, convstore.New{})
	var forks []convstore.ID
	for range 2 {
		c, err := s.Fork(t.Context(), root.ID, convstore.Fork{})
		storetest.NoError(t, err)
		forks = append(forks, c.ID)
	}
	var got []convstore.ID
	for p, err := range Export(t.Context(), s.View, []convstore.ID{root.ID}, true) {
		storetest.NoError(t, err)
		if got = append(got, p.Conversation.ID); len(got) == 1 {
			_, err := s.RemoveAll(t.Context(), forks[:1], convstore.RemoveOptions{})
			storetest.NoError(t, err)
		}
	}
	if want := []convstore.ID{root.ID, forks[1]}; !slices.Equal(got, want) {
		t.Errorf("exported %v, want %v", got, want)
	}
	for p, err := range Export(t.Context(), s.View, []convstore.ID{root.ID}, true) { // and what was named may not be missing
		switch {
		case err != nil:
			if !isGone(err) {
				t.Error(err)
			}
			return
		case p.Conversation.ID == forks[1]:
			_, err := s.RemoveAll(t.Context(), []convstore.ID{root.ID}, convstore.RemoveOptions{Cascade: true})
			storetest.NoError(t, err)
		}
	}
	t.Error("exported without the delegations of what was named")
}

// TestExportLostCall: the call that a killed process was making is owed, though no event of the
// store tells of it yet. The export does, in the very words that the store will have.
func TestExportLostCall(t *testing.T) {
	s := storetest.Open(t)
	c := storetest.Create(t, s, convstore.New{})
	l := storetest.Lock(t, s, c.ID)
	cost := int64(900)
	call := convstore.Call{Model: "m", Usage: convstore.Usage{Input: 100, Output: 50}, CostNano: &cost}
	if err := l.Begin(t.Context(), func(convstore.Account) *convstore.Call { return &call }, convstore.Event{Body: convstore.TurnStart{}}, convstore.Event{Body: convstore.UserMessage{Text: "q"}}); err != nil {
		t.Fatal(err)
	}
	if got := exportLines(t, s); strings.Contains(got, `"lost"`) {
		t.Errorf("while the call is made the export has it: %s", got)
	}
	_ = l.Close()
	killed := exportLines(t, s)
	if same := importAll(t, s, killed, ImportOptions{}); len(same.Same) != 1 {
		t.Errorf("import where it came from = %+v, want the same", same)
	}
	to := storetest.Open(t)
	importAll(t, to, killed, ImportOptions{})
	spent, err := usage.Spent(t.Context(), to.View, c.ID)
	if err != nil || len(spent.Charges) != 1 || spent.Charges[0].Usage != call.Usage || *spent.Charges[0].CostNano != cost {
		t.Errorf("charges after import = %+v, %v, want the lost call", spent.Charges, err)
	}
	l = storetest.Lock(t, s, c.ID)
	storetest.Append(t, l, convstore.Note{Text: "went on"})
	lost := ""
	for line := range strings.Lines(killed) {
		if strings.Contains(line, `"lost"`) {
			lost = line
		}
	}
	if now := exportLines(t, s); lost == "" || !strings.Contains(now, lost) {
		t.Errorf("the store has\n%sand the export had\n%s", now, lost)
	}
}
