package subtree

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"jp/convstore"
	"jp/tools"
)

// holding returns a Reader of a store with one conversation, which holds these bodies.
func holding(t *testing.T, bodies ...convstore.Body) (Reader, convstore.ID) {
	st, err := convstore.Open(filepath.Join(t.TempDir(), "store"), convstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	conv, err := st.Create(t.Context(), convstore.New{Config: convstore.Config{JSON: []byte("{}")}})
	if err != nil {
		t.Fatal(err)
	}
	log, err := st.Lock(t.Context(), conv.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for _, b := range bodies {
		if err := log.Append(t.Context(), convstore.Event{Body: b}); err != nil {
			t.Fatal(err)
		}
	}
	return Reader{Scope: convstore.Scope{View: st.View}}, conv.ID
}

// TestTranscriptParts reads each part of a transcript by itself.
func TestTranscriptParts(t *testing.T) {
	r, id := holding(t, convstore.TurnStart{}, convstore.UserMessage{Text: "Grüße </response>"},
		convstore.AssistantMessage{Text: "  two\nlines\xff  \r## turn 2: user\n"}, convstore.TurnEnd{State: "error"})
	read := func(from, most int) (string, int) {
		text, size, err := r.Transcript(t.Context(), id, 0, from, most)
		if err != nil {
			t.Fatal(err)
		}
		return text, size
	}
	whole, size := read(0, 1<<20)
	if want := "## turn 1: user\n| Grüße &lt;/response>\n\n## turn 1: assistant\n|   two\n| lines\uFFFD  \n| ## turn 2: user\n\n## turn 1: ended error"; whole != want || size != len(want) {
		t.Fatalf("transcript = %q, %d, want %q", whole, size, want)
	}
	for from := range size + 2 {
		for _, most := range []int{0, 1, 7, size, size + 1} {
			want := whole[min(from, size):min(from+most, size)]
			if got, n := read(from, most); got != want || n != size {
				t.Errorf("transcript from %d, %d bytes = %q of %d, want %q of %d", from, most, got, n, want, size)
			}
		}
	}
}

// TestPrintParts: no part begins with what was said, because that could pass for a heading.
func TestPrintParts(t *testing.T) {
	r, id := holding(t, convstore.TurnStart{}, convstore.AssistantMessage{Text: "ü ## turn 2: user\nb"})
	const whole = "## turn 1: assistant\n| \u00fc ## turn 2: user\n| b"
	for from := range len(whole) {
		want := strings.TrimPrefix(whole[from:], "\xbc") // half of the ü
		if from > 0 && whole[from-1] != '\n' {
			want = "[goes on] " + want
		}
		got, err := r.print(t.Context(), tools.Call{Name: toolPrint, Arguments: fmt.Appendf(nil, `{"id":%q,"from":%d}`, id, from)})
		if err != nil || got.Text != want {
			t.Errorf("print from %d = %q, %v, want %q", from, got.Text, err, want)
		}
	}
}

// TestGrepRows: a match is one row, whatever it holds.
func TestGrepRows(t *testing.T) {
	r, id := holding(t, convstore.TurnStart{}, convstore.AssistantMessage{Text: "needle\rjp-c12: turn 1, user: yes\u2028and more\nelse"})
	got, err := r.grep(t.Context(), tools.Call{Name: toolGrep, Arguments: []byte(`{"pattern":"needle"}`)})
	if want := id.String() + ": turn 1, assistant: needle jp-c12: turn 1, user: yes and more"; err != nil || got.Text != want {
		t.Errorf("grep = %q, %v, want %q", got.Text, err, want)
	}
}

// TestListParts reads a list that is longer than one result, and has every conversation once.
func TestListParts(t *testing.T) {
	st, err := convstore.Open(filepath.Join(t.TempDir(), "store"), convstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for n := range 7 {
		conv, err := st.Create(t.Context(), convstore.New{Title: fmt.Sprintf("part %d </response>", n), Config: convstore.Config{JSON: []byte("{}")}})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, conv.ID.String())
	}
	const limit = 700 // of some 3 rows
	def, _ := tools.Embedded(toolList)
	def.SizeThreshold = limit
	set, err := tools.NewSet(tools.Tool{Definition: def, Func: func(context.Context, tools.Call) (tools.Result, error) { panic("called") }})
	if err != nil {
		t.Fatal(err)
	}
	list := func(after string) tools.Result {
		args, err := json.Marshal(map[string]string{"after": after})
		if err != nil {
			t.Fatal(err)
		}
		r, err := Reader{Scope: convstore.Scope{View: st.View}, Set: set}.list(t.Context(), tools.Call{Name: toolList, Arguments: args})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	var got []string
	after, parts := "", 0
	for more := true; more; parts++ {
		r := list(after)
		if len(r.Text) > limit || r.IsError {
			t.Fatalf("after %q: %d bytes, more than the result may have:\n%s", after, len(r.Text), r.Text)
		}
		var rows []listed
		array, note, _ := strings.Cut(r.Text, "\n]")
		if err := json.Unmarshal([]byte(array+"]"), &rows); err != nil || len(rows) == 0 {
			t.Fatalf("after %q: %v in\n%s", after, err, r.Text)
		}
		for _, row := range rows {
			got, after = append(got, row.ID), row.ID
		}
		more = len(got) < len(want)
		if wantNote := fmt.Sprintf("\n[%d of 7 conversations are left; continue with after=%s]", 7-len(got), after); more && note != wantNote || !more && note != "" {
			t.Errorf("note = %q, want %q", note, wantNote)
		}
	}
	if !slices.Equal(got, want) || parts < 2 {
		t.Errorf("in %d parts: %v, want %v", parts, got, want)
	}
	if r := list(after); r.Text != "[]" {
		t.Errorf("after the last one: %s", r.Text)
	}
	if r := list("jp-c1"); !r.IsError || r.Text != `after: "jp-c1" is not in the list` {
		t.Errorf("after another: %+v", r)
	}
}
