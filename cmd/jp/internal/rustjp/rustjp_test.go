package rustjp

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jp/convstore"
	"jp/convstore/archive"
	"jp/tools/jsondoc"
)

func TestParseTime(t *testing.T) {
	half := time.Date(2026, 1, 2, 3, 4, 5, 500_000_000, time.UTC)
	for s, want := range map[string]time.Time{
		"2026-01-02 03:04:05.5":            half,
		"2026-01-02 03:04:05.500000":       half,
		"2026-01-02 03:04:05":              half.Truncate(time.Second),
		"2026-01-02T03:04:05.5Z":           half,
		"2026-01-02T04:04:05.500000+01:00": half,
		"2026-01-02T03:04:05.5":            half,
		"2026-01-02 03:04:05.5 UTC":        half,
		"2026-01-02 03:04:05.5+00:00":      half,
		"2026-01-02 05:04:05.5 +0200":      half,
		"2026-01-02 03:04:05.5 CEST":       {},
		"9999-01-02T03:04:05Z":             {},
		"yesterday":                        {},
		"":                                 {},
	} {
		if got, ok := parseTime(s); !got.Equal(want) || ok != !want.IsZero() {
			t.Errorf("parseTime(%q) = %v, %v; want %v", s, got, ok, want)
		}
	}
}

// What would take a hundred times its bytes is not decoded.
func TestCrowded(t *testing.T) {
	many := `[{"a":[` + strings.Repeat("1,", archive.MaxValues) + `1]}]`
	for name, want := range map[string]string{fileEvents: "entry 1, after byte 2097162: more than 1048576 values", fileConfig: "more than 1048576 values"} {
		dir := filepath.Join(t.TempDir(), "17671120783")
		for file, text := range map[string]string{fileEvents: "[]", fileMetadata: "{}", fileConfig: "{}", name: many} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var last error
		for _, last = range Pieces(dir, &Kept{}) {
		}
		if want = filepath.Join(dir, name) + ": " + want; last == nil || last.Error() != want {
			t.Errorf("%s: %v, want %s", name, last, want)
		}
	}
}

// TestSameTimes: a conversation that expires in the moment in which it was archived is both.
func TestSameTimes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "17671120783")
	at := "2026-01-02T03:04:05Z"
	err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, fileMetadata), []byte(`{"archived_at":"`+at+`","expires_at":"`+at+`"}`), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for p, err := range Pieces(filepath.Dir(dir), &Kept{}) {
		if err != nil || p.Conversation.ArchivedAt.Format(time.RFC3339) != at || p.Conversation.ExpiresAt.Format(time.RFC3339) != at {
			t.Errorf("read %+v, %v", p.Conversation, err)
		}
	}
}

// FuzzEvents reads anything as events.json. What is read goes into a store, and all of it that is
// not understood comes out.
func FuzzEvents(f *testing.F) {
	f.Add(`[]`)
	f.Add(`[{"timestamp":"2026-01-01 10:00:00.5","type":"turn_start"},{"type":"chat_request","content":"q"}]`)
	f.Add(`[{"type":"chat_request","content":"q"},{"type":"chat_response","message":"a"},{"type":"chat_request"}]`)
	f.Add(`[{"type":"tool_call_request","id":"c","name":"n","arguments":{"a":"YQ==","b":["Pz4_","%"],"c":1.0}},{"type":"tool_call_response","id":"c","content":"YQ"}]`)
	f.Add(`["x",null,{"type":7},{"type":"sparkle","type":"twice","seq":1,"event_id":"\u001b"}]`)
	f.Add(`[{"type":"chat_request"}] x`)
	f.Add(`[{"type":"config_delta","delta":{}},{"type":"turn_end"},{"type":"model_call","cost_nano":-1}]`)
	f.Fuzz(func(t *testing.T, events string) {
		dir := filepath.Join(t.TempDir(), "17671120783")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, fileEvents), []byte(events), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := convstore.Open(filepath.Join(t.TempDir(), "store"), convstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var kept Kept
		_, err = archive.Import(t.Context(), s, Pieces(dir, &kept), archive.ImportOptions{})
		var wrong *archive.ImportError
		var entries []json.RawMessage
		switch {
		case errors.As(err, &wrong):
			return
		case err != nil:
			t.Fatalf("Import() = %T %v, want an ImportError", err, err)
		case json.Unmarshal([]byte(events), &entries) != nil:
			t.Fatalf("imported what is no array: %q", events)
		}
		if err := s.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		c, err := s.Get(t.Context(), 17671120783)
		if err != nil || c.Events < len(entries) {
			t.Fatalf("%d events of %d entries, %v", c.Events, len(entries), err)
		}
		again, err := archive.Import(t.Context(), s, Pieces(dir, &kept), archive.ImportOptions{})
		if err != nil || len(again.Same) != 1 {
			t.Fatalf("again: %+v, %v", again, err)
		}
	})
}

// FuzzText decodes what was encoded in any of the forms, whatever it is.
func FuzzText(f *testing.F) {
	f.Add("")
	f.Add("é?>")
	f.Add("\xff")
	f.Fuzz(func(t *testing.T, s string) {
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
			r := reader{f: &folder{kept: &Kept{}}}
			encoded := enc.EncodeToString([]byte(s))
			var got, plain string
			if err := json.Unmarshal(r.strings(jsondoc.Text(encoded), 0), &got); err != nil {
				t.Fatal(err)
			}
			if json.Unmarshal(want, &plain) == nil && plain != s {
				plain = encoded // no text
			}
			if got != plain {
				t.Errorf("%q in base64 is %q, decoded %q", s, encoded, got)
			}
		}
	})
}
