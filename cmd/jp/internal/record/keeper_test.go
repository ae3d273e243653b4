package record

import (
	"strings"
	"testing"

	"jp/cmd/jp/internal/model/script"
)

// TestKeeper keeps lines of a sub-agent on another machine: those of its own run alone.
func TestKeeper(t *testing.T) {
	tape := &Tape{dir: t.TempDir(), trail: script.NewTrail("")}
	keep := tape.Below([]string{runVariable + "=main/1"}).Keeper([]string{runVariable + "=main/1/2"})
	for _, tt := range []struct{ line, want string }{
		{`{"run":"main/1/2","model":"m/a","text":"hello"}`, ""},
		{`{"run":"main/1","text":"of its caller"}`, `a line of a recording of the run "main/1", and not of "main/1/2"`},
		{`{"run":"main/1/2","text":"hello again"}`, "a second line of a recording for attempt 0 of round 0"},
		{`{"run":"main/1/2","model":"m/a","round":2,"attempt":1,"text":"x","stop":"end_turn"}`, `a line of a recording: line:7: rule 1: stop "end_turn": must be end, tool_use, max_tokens or refusal`},
		{`{"run":1}`, "a line of a recording: json: cannot unmarshal number into Go struct field Entry.run of type string"},
	} {
		got := ""
		if err := keep([]byte(tt.line)); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.line, got, tt.want)
		}
	}
	entries, err := parts[script.Entry](tape)
	if err != nil || len(entries) != 1 || entries[0].Text != "hello" {
		t.Errorf("kept %+v, %v", entries, err)
	}
	for range maxParts >> 20 {
		if err := tape.writeLine(script.Entry{Text: strings.Repeat("x", 1<<20)}); err != nil {
			t.Fatal(err)
		}
	}
	if entries, err := parts[script.Entry](tape); err != script.ErrTooLarge {
		t.Errorf("%d lines were read, %v, though no recording holds them", len(entries), err)
	}
	if (*Tape)(nil).Keeper(nil) != nil || (&Tape{replay: &script.Script{}}).Keeper(nil) != nil {
		t.Error("lines are kept where nothing is recorded")
	}
}
