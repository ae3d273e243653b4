package editor

import (
	"strings"
	"testing"

	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/toolcall"
	"jp/tools"
)

// What a diff does not show is shown beside it.
func TestBesideDiff(t *testing.T) {
	for _, tt := range []struct{ tool, args, want string }{
		{"fs_create_file", `{"path":"x","content":"a\n\tb\n"}`, ""},
		{"fs_create_file", `{"path":"x","content":"overwrite = true\n","overwrite":true}`, "overwrite = true"},
		{"fs_modify_file", `{"path":"x","edits":[{"old":"a","new":"b","all":true},{"old":"c","new":"edit 9, all = d"}]}`, "edit 1 of 2, all = true"},
		{"fs_create_file", `{"path":"x","content":"a\u202e\u2066\u200b\udb40\udc41"}`,
			"holds 4 invisible characters: U+202E U+2066 U+200B U+E0041\n" + `path = "x"` + "\n" + `  + "a\u202e\u2066\u200b\U000e0041"` + "\n  (no line break at the end)"},
		{"fs_create_file", `{"path":"x\u200b","content":"a\n"}`, "holds 1 invisible character: U+200B\n" + `path = "x\u200b"` + "\n  + a"},
	} {
		q := tools.NewQuestion(tools.KindRun, tools.Definition{Name: tt.tool, Source: tools.SourceBuiltin}, tools.Call{Name: tt.tool, Arguments: []byte(tt.args)}, "")
		if got := besideDiff(q); got != tt.want {
			t.Errorf("besideDiff(%s) = %q, want %q", tt.args, got, tt.want)
		}
	}
}

// Nobody can give a model what was not shown to them whole.
func TestAskTooLong(t *testing.T) {
	v := &view{run: new(run.Run)}
	for _, tt := range []struct {
		kind         tools.Kind
		args, result string
		want         string
	}{
		{tools.KindRun, `{"a":"` + strings.Repeat("x", toolcall.MaxShown) + `"}`, "", "the call is too long to be shown whole: 1024 KiB, more than 1024"},
		{tools.KindDeliver, "{}", strings.Repeat("\n", toolcall.MaxShown) + "tail", "the result is too long to be shown whole: 5120 KiB, more than 1024"},
	} {
		q := tools.NewQuestion(tt.kind, tools.Definition{Name: "t"}, tools.Call{Name: "t", Arguments: []byte(tt.args)}, tt.result)
		if got, err := v.Ask(t.Context(), q); err != nil || got.Choice != tools.DenyOnce || got.Reason != tt.want {
			t.Errorf("Ask = %+v, %v, want %s", got, err, tt.want)
		}
	}
}

// Sub-agents of a batch and of a tool are shown at the call that the editor knows.
func TestCallOf(t *testing.T) {
	for _, delegation := range []string{"call_1", "call_1#2", "call_1/2", "call_1/2#3"} {
		if got := callOf(delegation); got != "call_1" {
			t.Errorf("callOf(%s) = %s, want call_1", delegation, got)
		}
	}
}
