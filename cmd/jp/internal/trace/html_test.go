package trace

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"jp/convstore"
)

// FuzzHTML: whatever a person, a model or a tool says, the page around the data stays as it is, and
// the data is what was said.
func FuzzHTML(f *testing.F) {
	for _, text := range []string{hostile, "<!--<script>", "</ScRiPt\t>", "@script@ @trace@ @title@", "\u2028\u2029\ufeff", "\xff\xfe\x00", `\u003c/script>"`, "]]>&lt;&#60;"} {
		f.Add(text)
	}
	page := func(t testing.TB, text string) (string, *Trace) {
		tr := newTree(text)
		for id := range tr.events {
			for i, ev := range tr.events[id] {
				switch b := ev.Body.(type) {
				case convstore.ToolCall:
					b.Name, b.Arguments = b.Name+text, []byte(text)
					ev.Body = b
				case convstore.ModelCall:
					b.Model, b.Stop = b.Model+text, text
					ev.Body = b
				}
				tr.events[id][i] = ev
			}
		}
		tr.Delegations[0].Profile, tr.Delegations[0].Reason = text, text
		built := build(t, tr)
		var b bytes.Buffer
		if err := built.HTML(&b); err != nil {
			t.Fatal(err)
		}
		return b.String(), built
	}
	// parts cuts a page into its title, its data and what is around both.
	parts := func(page string) (title, data, around string) {
		const beforeTitle, beforeData = "<title>", `<script type="application/json" id="trace">`
		head, rest, _ := strings.Cut(page, beforeTitle)
		title, rest, _ = strings.Cut(rest, "</title>")
		middle, rest, _ := strings.Cut(rest, beforeData)
		data, foot, _ := strings.Cut(rest, "</script>")
		return title, data, head + middle + foot
	}
	plain, _ := page(f, "x")
	_, _, want := parts(plain)
	f.Fuzz(func(t *testing.T, text string) {
		got, built := page(t, text)
		title, data, around := parts(got)
		if around != want {
			t.Fatalf("the page around %q:\n%s", text, around)
		}
		if strings.ContainsAny(title, "<>\"'\n") || strings.ContainsAny(data, "<>&") {
			t.Fatalf("title %q, data %s", title, data)
		}
		known, err := json.Marshal(built)
		if err != nil {
			t.Fatal(err)
		}
		var shown, said any
		if err := json.Unmarshal([]byte(data), &shown); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		if err := json.Unmarshal(known, &said); err != nil || !reflect.DeepEqual(shown, said) {
			t.Fatalf("the page says\n%s\nof\n%s", data, known)
		}
	})
}
