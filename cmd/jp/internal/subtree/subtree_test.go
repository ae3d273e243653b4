package subtree

import (
	"path/filepath"
	"testing"

	"jp/convstore"
)

// TestTranscriptParts reads each part of a transcript by itself.
func TestTranscriptParts(t *testing.T) {
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
	if err := log.Append(t.Context(),
		convstore.Event{Body: convstore.TurnStart{}}, convstore.Event{Body: convstore.UserMessage{Text: "Grüße </response>"}},
		convstore.Event{Body: convstore.AssistantMessage{Text: "  two\nlines\xff  \n"}}, convstore.Event{Body: convstore.TurnEnd{State: "error"}}); err != nil {
		t.Fatal(err)
	}
	read := func(from, most int) (string, int) {
		text, size, err := Reader{Scope: convstore.Scope{View: st.View}}.Transcript(t.Context(), conv.ID, 0, from, most)
		if err != nil {
			t.Fatal(err)
		}
		return text, size
	}
	whole, size := read(0, 1<<20)
	if want := "## turn 1: user\n| Grüße &lt;/response>\n\n## turn 1: assistant\n|   two\n| lines\uFFFD  \n\n## turn 1: ended error"; whole != want || size != len(want) {
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
