package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"jp/convstore"
	"jp/convstore/internal/db"
	"jp/convstore/internal/page"
	"jp/convstore/internal/test/storetest"
	"jp/tools/regex"
)

func mustSearch(t testing.TB, v convstore.View, q Query) []Match {
	t.Helper()
	var found []Match
	for m, err := range Run(t.Context(), v, q) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, m)
	}
	return found
}

// line is a match as `jp conversation grep` prints it.
func (m Match) line() string {
	s := fmt.Sprintf("%d:%s:%s", m.Turn, m.Scope, m.Text)
	for _, b := range m.Before {
		s = "-" + b + "|" + s
	}
	for _, a := range m.After {
		s += "|+" + a
	}
	return s
}

func matchLines(found []Match) string {
	var lines []string
	for _, m := range found {
		lines = append(lines, m.line())
	}
	return strings.Join(lines, "\n")
}

func TestSearch(t *testing.T) {
	s := storetest.Open(t)
	c := storetest.Create(t, s, convstore.New{Title: "About zebras"})
	hidden := storetest.Create(t, s, convstore.New{Title: "hidden zebra", Hidden: true})
	l := storetest.Lock(t, s, c.ID)
	storetest.Append(t, l,
		convstore.Note{Text: "zebra in a note"},
		convstore.TurnStart{},
		convstore.UserMessage{Text: "one\r\ntwo Zebra\nthree zebra zebra\nfour\nfive", Attachments: []convstore.Attachment{{Source: "zebra.txt", Text: "striped zebra"}}},
		convstore.Reasoning{Text: "hm, zebra?"},
		convstore.ToolCall{ID: "1", Name: "zebra_find", Arguments: json.RawMessage(`{"path":"a/zebra.go","deep":{"lines":["x","say \"zebra\"\nbye"],"n":12},"zebra":true}`)},
		convstore.ToolResult{ID: "1", Text: "tab\tzebra \u001b[31mred"},
		convstore.AssistantMessage{Text: "Zebra."},
		convstore.TurnEnd{State: convstore.StateOK},
		convstore.TurnStart{},
		convstore.ToolCall{ID: "2", Name: "x", Arguments: json.RawMessage(`not json: zebra`)},
		convstore.Structured{Data: json.RawMessage(`{"animal":"z\u0065bra","\u212Aey":"stra\u00dfe"}`)},
		convstore.Inquiry{ID: "i", Text: "zebra or horse?", Options: []string{"zebra", "horse"}, Default: json.RawMessage(`"horse"`)},
		convstore.InquiryAnswer{ID: "i", Answer: json.RawMessage(`"zebra"`)},
		convstore.AssistantMessage{Text: "ÉTÉ été Straße STRASSE K k ſ s"},
	)
	all := `0:title:About zebras
1:user:two Zebra
1:user:three zebra zebra
1:user:zebra.txt
1:user:striped zebra
1:reasoning:hm, zebra?
1:tool-call:zebra_find
1:tool-call:path: a/zebra.go
1:tool-call:lines: say "zebra"
1:tool-call:zebra: true
1:tool-result:tab	zebra ` + "\u001b" + `[31mred
1:assistant:Zebra.
2:tool-call:not json: zebra
2:structured:animal: zebra
2:inquiry:zebra or horse?
2:inquiry:zebra
2:inquiry:zebra`
	for _, test := range []struct {
		name string
		q    Query
		want string
	}{
		{"everything", Query{Pattern: "zebra"}, all},
		{"everything by name", Query{Pattern: "zebra", Scopes: []Scope{ScopeAll}}, all},
		{"smart case", Query{Pattern: "Zebra"}, "1:user:two Zebra\n1:assistant:Zebra."},
		{"match case", Query{Pattern: "zebra.", Case: MatchCase}, "1:user:zebra.txt\n1:tool-call:path: a/zebra.go"},
		{"ignore case", Query{Pattern: "ZEBRA.", Case: IgnoreCase, Scopes: []Scope{ScopeAssistant, ScopeUser}}, "1:user:zebra.txt\n1:assistant:Zebra."},
		{"chat", Query{Pattern: "bra", Scopes: []Scope{ScopeChat}, Case: MatchCase}, "1:user:two Zebra\n1:user:three zebra zebra\n1:user:zebra.txt\n1:user:striped zebra\n1:reasoning:hm, zebra?\n1:assistant:Zebra.\n2:structured:animal: zebra"},
		{"tool", Query{Pattern: "x", Scopes: []Scope{ScopeTool}}, "1:tool-call:lines: x\n2:tool-call:x"},
		{"regexp", Query{Pattern: `\bzebra\b.*zebra$`, Regexp: true}, "1:user:three zebra zebra"},
		{"smart case of a class", Query{Pattern: `\Szebra\s`, Regexp: true, Scopes: []Scope{ScopeChat}}, ""},
		{"a quote", Query{Pattern: `"zebra"`}, `1:tool-call:lines: say "zebra"`},
		{"a control character", Query{Pattern: "\u001b["}, "1:tool-result:tab\tzebra \u001b[31mred"},
		{"a tab", Query{Pattern: "tab\tzeb"}, "1:tool-result:tab\tzebra \u001b[31mred"},
		{"across name and value", Query{Pattern: "n: 1"}, "1:tool-call:n: 12"},
		{"the end of a name", Query{Pattern: "path:"}, "1:tool-call:path: a/zebra.go"},
		{"the begin of a value", Query{Pattern: " a/z"}, "1:tool-call:path: a/zebra.go"},
		{"nothing but the colon", Query{Pattern: ": tr"}, "1:tool-call:zebra: true"},
		{"accents", Query{Pattern: "été"}, "2:assistant:ÉTÉ été Straße STRASSE K k ſ s"},
		{"accents in their case", Query{Pattern: "Été", Case: MatchCase}, ""},
		{"a fold into ASCII", Query{Pattern: "key", Scopes: []Scope{ScopeStructured}}, "2:structured:\u212Aey: straße"},
		{"an escape that we do not write", Query{Pattern: "straße", Scopes: []Scope{ScopeStructured}}, "2:structured:\u212Aey: straße"},
		{"context", Query{Pattern: "zebra", Context: 1, Scopes: []Scope{ScopeUser}}, "-one|1:user:two Zebra\n1:user:three zebra zebra|+four\n-five|1:user:zebra.txt\n1:user:striped zebra"},
		{"max matches", Query{Pattern: "zebra", MaxMatches: 2}, "0:title:About zebras\n1:user:two Zebra"},
		{"hidden", Query{Pattern: "zebra", Hidden: true, Scopes: []Scope{ScopeTitle}}, "0:title:About zebras\n0:title:hidden zebra"},
		{"limit", Query{Pattern: "zebra", Hidden: true, Scopes: []Scope{ScopeTitle}, Limit: 1}, "0:title:About zebras"},
		{"by id", Query{Pattern: "zebra", IDs: []convstore.ID{hidden.ID}}, "0:title:hidden zebra"},
		{"nothing", Query{Pattern: "okapi"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := matchLines(mustSearch(t, s.View, test.q)); got != test.want {
				t.Errorf("Search(%+v) =\n%s\nwant\n%s", test.q, got, test.want)
			}
		})
	}
}

func TestSearchSubmatches(t *testing.T) {
	s := storetest.Open(t)
	c := storetest.Create(t, s, convstore.New{})
	l := storetest.Lock(t, s, c.ID)
	e := storetest.Append(t, l, convstore.TurnStart{}, convstore.UserMessage{Text: "äb\nxäbäb"})[1]
	got := mustSearch(t, s.View, Query{Pattern: "äb"})
	if len(got) != 2 || got[1].Line != 2 || got[1].Seq != e.Seq || !got[1].Time.Equal(e.Time) {
		t.Fatalf("Search = %+v", got)
	}
	want := []Submatch{{"äb", 1, 4}, {"äb", 4, 7}}
	if !reflect.DeepEqual(got[1].Submatches, want) {
		t.Errorf("submatches %v, want %v", got[1].Submatches, want)
	}
}

func TestSearchErrors(t *testing.T) {
	s := storetest.Open(t)
	c, d := storetest.Create(t, s, convstore.New{Title: "x"}), storetest.Create(t, s, convstore.New{Title: "x"})
	below, err := s.Under(t.Context(), c.ID)
	if err != nil {
		t.Fatal(err)
	}
	first := func(v convstore.View, q Query) error {
		for _, err := range Run(t.Context(), v, q) {
			return err
		}
		return nil
	}
	var pattern *PatternError
	large := strings.Repeat("(?:a?){1000}", 4)
	for _, q := range []Query{{Pattern: ""}, {Pattern: "("}, {Pattern: "a\nb"}, {Pattern: large}, {Pattern: strings.Repeat("a", 5000)}} {
		q.Regexp = strings.HasPrefix(q.Pattern, "(")
		if err := first(s.View, q); !errors.As(err, &pattern) || pattern.Pattern != q.Pattern {
			t.Errorf("Search(%q): error %v, want a *PatternError", q.Pattern, err)
		}
	}
	storetest.Error(t, "an unknown id", first(s.View, Query{Pattern: "x", IDs: []convstore.ID{1}}), &convstore.NotFoundError{ID: 1})
	storetest.Error(t, "an id outside", first(below, Query{Pattern: "x", IDs: []convstore.ID{d.ID}}), &convstore.ScopeError{ID: d.ID, Root: c.ID})
	storetest.Error(t, "the root itself", first(below, Query{Pattern: "x", IDs: []convstore.ID{c.ID}}), &convstore.ScopeError{ID: c.ID, Root: c.ID})
	if err := first(s.View, Query{Pattern: "x", Scopes: []Scope{"y"}}); err == nil {
		t.Error("an unknown scope was taken")
	}
	if err := first(below, Query{Pattern: large, Regexp: true, AnySize: true}); err != nil {
		t.Errorf("a large expression of a person: %v", err)
	}
	if err := first(below, Query{Pattern: "x"}); err != nil {
		t.Errorf("nothing below: %v", err)
	}
}

// The alphabet of the generated texts: everything that folds, escapes, separates or could be taken
// for JSON.
var searchRunes = []rune("aAkKsSzZ:: \"\\/\t\u001b\u2028éÉßſ\u212AσςΣ漢{},.u0")

func searchText() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return string(rapid.SliceOfN(rapid.SampledFrom(searchRunes), 0, 12).Draw(t, "text"))
	})
}

// escapeSome writes a JSON string in one of the many ways that are allowed.
func escapeSome(t *rapid.T, s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		plain := r >= 0x20 && r != '"' && r != '\\'
		switch how := rapid.IntRange(0, 3).Draw(t, "escape"); {
		case how == 0 && r == '/':
			b.WriteString(`\/`)
		case how == 1 && r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		case how == 2 && r < 0x10000:
			fmt.Fprintf(&b, `\u%04X`, r)
		case plain:
			b.WriteRune(r)
		default:
			b.WriteString(escapeJSON(string(r)))
		}
	}
	b.WriteByte('"')
	return b.String()
}

func searchBody() *rapid.Generator[convstore.Body] {
	return rapid.Custom(func(t *rapid.T) convstore.Body {
		text := searchText()
		object := func() json.RawMessage {
			return json.RawMessage(fmt.Sprintf(`{%s:%s,%s:[%s,{"n":%d}]}`,
				escapeSome(t, text.Draw(t, "name")), escapeSome(t, text.Draw(t, "value")),
				escapeSome(t, text.Draw(t, "name")), escapeSome(t, text.Draw(t, "value")),
				rapid.IntRange(0, 100).Draw(t, "n")))
		}
		switch rapid.IntRange(0, 5).Draw(t, "body") {
		case 0:
			return convstore.UserMessage{Text: text.Draw(t, "a") + "\n" + text.Draw(t, "b")}
		case 1:
			return convstore.ToolCall{ID: "x", Name: text.Draw(t, "name"), Arguments: object()}
		case 2:
			return convstore.ToolCall{ID: "x", Name: "n", Arguments: json.RawMessage(text.Draw(t, "arguments"))}
		case 3:
			return convstore.Structured{Data: object()}
		case 4:
			raw := fmt.Sprintf(`{"type":"chat_response","message":%s}`, escapeSome(t, text.Draw(t, "message")))
			return convstore.Opaque{Name: "chat_response", Raw: json.RawMessage(raw)}
		}
		return convstore.Inquiry{ID: "x", Text: text.Draw(t, "text"), Options: []string{text.Draw(t, "option")}, Default: object()}
	})
}

// TestPrefilterKeepsMatches compares what passes the prefilter with what the lines of the decoded
// body hold: whatever matches must pass.
func TestPrefilterKeepsMatches(t *testing.T) {
	passed, matched := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s, err := convstore.EncodeEvent(convstore.Event{ID: "x", Time: time.Unix(0, 0), Body: searchBody().Draw(t, "event")})
		if err != nil {
			t.Fatal(err)
		}
		body, err := convstore.DecodeBody(s.Body)
		if err != nil {
			t.Fatal(err)
		}
		lines := linesOf(body)
		// Look for a piece of what is there, perhaps in another case.
		pattern := searchText().Draw(t, "elsewhere")
		if len(lines) > 0 && rapid.Bool().Draw(t, "there") {
			line := []rune(rapid.SampledFrom(lines).Draw(t, "line"))
			from := rapid.IntRange(0, len(line)).Draw(t, "from")
			to := rapid.IntRange(from, len(line)).Draw(t, "to")
			runes := line[from:to]
			for i, r := range runes {
				for range rapid.IntRange(0, 2).Draw(t, "fold") {
					r = unicode.SimpleFold(r)
				}
				runes[i] = r
			}
			pattern = string(runes)
		}
		q := Query{Pattern: pattern, Case: rapid.SampledFrom([]Case{SmartCase, IgnoreCase, MatchCase}).Draw(t, "case")}
		if rapid.Bool().Draw(t, "regexp") {
			quoted := regexp.QuoteMeta(pattern)
			q.Regexp, q.Pattern = true, rapid.SampledFrom([]string{
				quoted, "^" + quoted, quoted + ".*", "(" + quoted + ")+", "x*" + quoted, "(?i)" + quoted, quoted + "|漢", "(?:" + quoted + "){1,2}",
			}).Draw(t, "shape")
		}
		search, err := newSearch(convstore.View{}, q)
		if err != nil {
			t.Skip(err)
		}
		pass := s.Loose || search.pre.passes(s.Body)
		if pass {
			passed++
		}
		for _, line := range lines {
			if loc, err := regex.Find(context.Background(), search.re, line); loc == nil || err != nil {
				continue
			}
			matched++
			if !pass {
				t.Fatalf("%q matches line %q of %s, but the prefilter %+v keeps it out",
					q.Pattern, line, s.Body, search.pre)
			}
		}
	})
	if matched == 0 || passed == 0 {
		t.Errorf("%d passed, %d matched: nothing was tested", passed, matched)
	}
}

func TestPrefilterKeepsOut(t *testing.T) {
	s, err := convstore.EncodeEvent(convstore.Event{ID: "x", Time: time.Unix(0, 0), Body: convstore.AssistantMessage{Text: "The quick brown fox\njumps \u001b over \u2028 the \"lazy\" dog, naïve"}})
	if err != nil || s.Loose {
		t.Fatalf("loose %v, error %v", s.Loose, err)
	}
	for _, q := range []Query{
		{Pattern: "zebra"}, {Pattern: "Quick"}, {Pattern: "quick  brown"}, {Pattern: "Naïve"},
		{Pattern: "fox.*zigzag", Regexp: true}, {Pattern: "foxjumps"},
	} {
		search, err := newSearch(convstore.View{}, q)
		if err != nil {
			t.Fatal(err)
		}
		if search.pre.passes(s.Body) {
			t.Errorf("%q (prefilter %+v) passes %s", q.Pattern, search.pre, s.Body)
		}
	}
}

// TestSearchLongWithoutCase looks for texts whose characters take several bytes and have no case,
// and that are longer than what the prefilter looks for.
func TestSearchLongWithoutCase(t *testing.T) {
	s := storetest.Open(t)
	l := storetest.Lock(t, s, storetest.Create(t, s, convstore.New{}).ID)
	text := strings.Repeat("漢字", 20)
	storetest.Append(t, l, convstore.TurnStart{}, convstore.UserMessage{Text: "x" + text})
	for _, pattern := range []string{text, "X" + text, "x" + text[:33], text[:36] + ".*"} {
		for _, how := range []Case{SmartCase, IgnoreCase, MatchCase} {
			found := 0
			for _, err := range Run(t.Context(), s.View, Query{Pattern: pattern, Regexp: strings.HasSuffix(pattern, "*"), Case: how}) {
				if err != nil {
					t.Fatal(err)
				}
				found++
			}
			want := 1
			if pattern[0] == 'X' && how != IgnoreCase {
				want = 0
			}
			if found != want {
				t.Errorf("%q, case %d: %d matches, want %d", pattern, how, found, want)
			}
		}
	}
}

// TestSearchInPieces searches a conversation in visits that have no time at all.
func TestSearchInPieces(t *testing.T) {
	s := storetest.Open(t)
	l := storetest.Lock(t, s, storetest.Create(t, s, convstore.New{}).ID)
	const n = 300
	var bodies []convstore.Body
	for i := range n {
		text := "a needle"
		if i%3 == 0 {
			text = "hay"
		}
		bodies = append(bodies, convstore.UserMessage{Text: text})
	}
	storetest.Append(t, l, bodies...)
	search, err := newSearch(s.View, Query{Pattern: "needle"})
	if err != nil {
		t.Fatal(err)
	}
	sc := newScan(search)
	defer sc.maps.Close()
	p := &part{Head: convstore.Head{ID: l.ID()}, seq: 1}
	visits := 0
	for ; p.seq != 0; visits++ {
		err := sc.visit(t.Context(), func(x *db.Tx, events page.Bucket) error { return sc.events(t.Context(), x, events, p, time.Time{}) })
		if err != nil {
			t.Fatal(err)
		}
		if x := p.later; x != nil { // on a busy machine: it took longer than a moment
			p.later = nil
			storetest.NoError(t, sc.match(t.Context(), *x, func(m Match) bool { return sc.add(p, m) }))
		}
	}
	var got, want []uint64
	for _, m := range p.found.matches {
		got = append(got, m.Seq)
	}
	for i := range n {
		if i%3 != 0 {
			want = append(want, uint64(i+1))
		}
	}
	if visits < 10 || !reflect.DeepEqual(got, want) {
		t.Errorf("in %d visits found %v, want %v", visits, got, want)
	}
}

func TestSearchGoesOn(t *testing.T) {
	// More conversations than searchers may be ahead, some of them larger than a visit, read by
	// someone who writes to the store in between.
	s := storetest.Open(t)
	var want []convstore.ID
	for i := range 3 * searchAhead {
		c := storetest.Create(t, s, convstore.New{Title: fmt.Sprint("conversation ", i)})
		if i%3 == 0 {
			l := storetest.Lock(t, s, c.ID)
			storetest.Append(t, l, convstore.TurnStart{}, convstore.UserMessage{Text: "a needle"})
			_ = l.Close()
			want = append(want, c.ID)
		}
	}
	var got []convstore.ID
	for m, err := range Run(t.Context(), s.View, Query{Pattern: "needle"}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m.ID)
		if len(got)%16 == 0 {
			storetest.Create(t, s, convstore.New{Title: "meanwhile"})
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("found in %v, want %v", got, want)
	}
	n := 0
	for _, _ = range Run(t.Context(), s.View, Query{Pattern: "needle"}) {
		if n++; n == 2 {
			break
		}
	}
}

// TestSearchEnds searches with an expression and a line that take hours together. Meanwhile others
// write to the store; then the search ends with its context.
func TestSearchEnds(t *testing.T) {
	s := storetest.Open(t)
	l := storetest.Lock(t, s, storetest.Create(t, s, convstore.New{Title: "slow"}).ID)
	storetest.Append(t, l, convstore.TurnStart{}, convstore.UserMessage{Text: strings.Repeat("a", 4<<20)})
	gone := errors.New("nobody waits")
	ctx, cancel := context.WithCancelCause(t.Context())
	sought := make(chan error)
	started := make(chan struct{})
	go func() {
		for m, err := range Run(ctx, s.View, Query{Pattern: "title|(?:a?){990}[xy]|slow", Regexp: true}) {
			if err != nil {
				sought <- err
				return
			}
			if m.Scope == ScopeTitle {
				close(started)
			}
		}
		sought <- nil
	}()
	<-started // what was found before is there already
	storetest.Create(t, s, convstore.New{Title: "meanwhile"})
	cancel(gone)
	if err := <-sought; err != gone {
		t.Errorf("Search = %v, want %v", err, gone)
	}
}

// TestMatchSoon: while the store is open nothing is matched that takes longer than a moment, a
// short line with many matches neither.
func TestMatchSoon(t *testing.T) {
	search, err := newSearch(storetest.Open(t).View, Query{Pattern: "a.*x|a", Regexp: true})
	if err != nil {
		t.Fatal(err)
	}
	sc := newScan(search)
	for _, test := range []struct {
		letters int
		later   bool
	}{{3, false}, {20_000, true}} {
		p, x := &part{seq: 1}, text{lines: []string{strings.Repeat("a", test.letters)}}
		sc.matchSoon(t.Context(), p, x)
		if later := p.later != nil; later != test.later || later == (len(p.found.matches) > 0) {
			t.Errorf("%d letters: left for later = %v with %d matches, want %v", test.letters, later, len(p.found.matches), test.later)
		}
	}
}

// scanFor returns a scan of a store that has not begun.
func scanFor(t *testing.T, s *convstore.Store, pattern string) *scan {
	t.Helper()
	search, err := newSearch(s.View, Query{Pattern: pattern})
	if err == nil {
		err = search.choose(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	sc := newScan(search)
	t.Cleanup(sc.maps.Close)
	return sc
}

// TestSearchHandsOver reads the matches of one event that has more than wait to be read: the
// searcher is no further ahead than that, and a bound of conversations counts them as one.
func TestSearchHandsOver(t *testing.T) {
	s := storetest.Open(t)
	var want, got []string
	for range 3 {
		l := storetest.Lock(t, s, storetest.Create(t, s, convstore.New{}).ID)
		storetest.Append(t, l, convstore.TurnStart{}, convstore.UserMessage{Text: strings.Repeat("a needle\n", 10_000)}, convstore.UserMessage{Text: "a needle\n"})
		for i := range 10_001 {
			want = append(want, fmt.Sprint(l.ID(), 1+i%10_000))
		}
		_ = l.Close()
	}
	sc := scanFor(t, s, "needle")
	done := make(chan struct{})
	go func() { defer close(done); sc.work(t.Context()) }()
	most := 0
	for f := sc.await(); f.searched || len(f.matches) > 0; f = sc.await() {
		most = max(most, len(f.matches))
		for _, m := range f.matches {
			got = append(got, fmt.Sprint(m.ID, m.Line))
		}
	}
	<-done
	if !slices.Equal(got, want) {
		t.Errorf("%d matches, want %d", len(got), len(want))
	}
	if most > handSize/256 {
		t.Errorf("%d matches waited to be read, want at most %d", most, handSize/256)
	}
	if n := len(mustSearch(t, s.View, Query{Pattern: "needle", Limit: 2})); n != 20_002 {
		t.Errorf("%d matches in two conversations, want 20,002", n)
	}
	if n := len(mustSearch(t, s.View, Query{Pattern: "needle", MaxMatches: 5000})); n != 15_000 {
		t.Errorf("%d matches of 5000 in each of three, want 15,000", n)
	}
}

// TestSearchWaits searches texts that are matched while the store is closed, each with fewer matches
// than may wait. Nobody reads what is found.
func TestSearchWaits(t *testing.T) {
	s := storetest.Open(t)
	l := storetest.Lock(t, s, storetest.Create(t, s, convstore.New{}).ID)
	storetest.Append(t, l, convstore.TurnStart{})
	for range 20 {
		storetest.Append(t, l, convstore.UserMessage{Text: strings.Repeat("a needle\nhay\n", 700)})
	}
	synctest.Test(t, func(t *testing.T) {
		sc := scanFor(t, s, "needle")
		var worker sync.WaitGroup
		worker.Go(func() { sc.work(t.Context()) })
		synctest.Wait()
		if n := len(sc.found[0].matches); n == 0 || n > 2*handSize/256 {
			t.Errorf("%d matches wait to be read, want at most %d", n, 2*handSize/256)
		}
		sc.stop()
		worker.Wait()
	})
}

// TestMatchKeepsNoText keeps the only match of each of many large texts.
func TestMatchKeepsNoText(t *testing.T) {
	const n, size = 8, 512 << 10
	s := storetest.Open(t)
	l := storetest.Lock(t, s, storetest.Create(t, s, convstore.New{}).ID)
	storetest.Append(t, l, convstore.TurnStart{})
	for range n {
		storetest.Append(t, l, convstore.ToolResult{Text: strings.Repeat(strings.Repeat("hay", 341)+"\n", size/1024) + "before\na needle\nafter\n"})
	}
	inUse := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := inUse()
	found := mustSearch(t, s.View, Query{Pattern: "needle", Context: 1})
	if kept := int64(inUse()) - int64(before); kept > n*size/4 {
		t.Errorf("%d matches keep %d bytes", len(found), kept)
	}
	if len(found) != n || found[n-1].line() != "-before|1:tool-result:a needle|+after" {
		t.Errorf("%d matches, want %d; the last: %q", len(found), n, found[n-1].line())
	}
}

// TestScanHeadMoves: a candidate waits for the reader with some matches, and the reader for the
// candidates before it, in which nothing is found.
func TestScanHeadMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := newScan(&search{todo: make([]convstore.Head, 2)})
		first, second := sc.take(true), sc.take(true)
		read := make(chan finding)
		go func() { read <- sc.await() }()
		go sc.giveSome(second, &waiting{matches: []Match{{ID: 2}}, size: handSize + 1})
		synctest.Wait()
		sc.give(first, &waiting{}, nil)
		if f := <-read; f.searched || len(f.matches) != 1 || f.matches[0].ID != 2 {
			t.Errorf("await = %+v, want the match of the second", f)
		}
	})
}
