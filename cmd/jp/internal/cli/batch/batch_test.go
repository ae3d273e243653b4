package batch

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/convstore"
)

// FuzzRead: read returns an error that names a line, or items that hold no more than a line may
// hold. Items that are written as lines and read again are the same.
func FuzzRead(f *testing.F) {
	f.Add("\"a\"\n\n{\"query\":\"b\",\"config\":\"agent/x\",\"context_query\":\"c\"}\r\n", "p", false)
	f.Add(`{"query":"b","id":"jp-c17000000001","config":null}`, "./p.toml", true)
	f.Add(`{"query":"b","Query":"c"}`, "p", true)
	f.Add(`{"query":"b","id":"new"}`, "", false)
	f.Add("{\"query\":\"b\",\"config\":\"../x.toml\"}\n[1]\n\"a\\u0000\"\n\"a\" \"b\"", "p", true)
	f.Add("\"\xff\"\n\"\\ud800\"", "p", true)
	f.Fuzz(func(t *testing.T, text, profile string, below bool) {
		var o options
		profile = strings.ToValidUTF8(profile, "") // a line can say any other
		o.profile.Value, o.profile.Set = profile, profile != ""
		o.rootID.Value, o.rootID.Set = "jp-c1", below
		items, err := read(text, o)
		var e *exit.Error
		if err != nil {
			if items != nil || !errors.As(err, &e) || e.Status != exit.Usage || !strings.HasPrefix(e.Msg, "batch: ") {
				t.Fatalf("read(%q) = %d items, %#v", text, len(items), err)
			}
			return
		}
		var lines strings.Builder
		enc := json.NewEncoder(&lines)
		for i, it := range items {
			if want := (delegate.Item{Query: it.Query, Config: it.Config, ID: it.ID, Context: it.Context, Number: i + 1}); !reflect.DeepEqual(it, want) {
				t.Fatalf("read(%q): an item holds more than a line can: %+v", text, it)
			}
			if strings.TrimSpace(it.Query) == "" || strings.ContainsRune(it.Query+it.Context, 0) || it.Config != profile && !profileName(it.Config) {
				t.Fatalf("read(%q): %+v", text, it)
			}
			if _, err := convstore.ParseID(it.ID); it.ID != "" && (err != nil || !below) {
				t.Fatalf("read(%q): %+v", text, it)
			}
			if err := enc.Encode(query{it.Query, it.Config, it.ID, it.Context}); err != nil {
				t.Fatal(err)
			}
		}
		again, err := read(lines.String(), o)
		if err != nil || !reflect.DeepEqual(again, items) || len(items) == 0 {
			t.Fatalf("read(%q) = %+v\nread(%q) = %+v, %v", text, items, lines.String(), again, err)
		}
	})
}
