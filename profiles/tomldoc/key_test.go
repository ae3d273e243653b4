package tomldoc

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestKeys(t *testing.T) {
	tests := []struct {
		text  string
		parts []string // nil: no key
	}{
		{"a", []string{"a"}},
		{"a.b-c.D_1", []string{"a", "b-c", "D_1"}},
		{"*", []string{"*"}},
		{"a.*.b", []string{"a", "*", "b"}},
		{`"*"`, []string{"*"}},
		{`"a.b".'c"d'."e'f"`, []string{"a.b", `c"d`, "e'f"}},
		{`"\t\x41\u00e9\U0001F600\\\""`, []string{"\tAé\U0001F600\\\""}},
		{"", nil},
		{".", nil},
		{"a.", nil},
		{".a", nil},
		{"a..b", nil},
		{"a b", nil},
		{"a*", nil},
		{`""`, nil},
		{`''`, nil},
		{`"a`, nil},
		{`"a"b`, nil},
		{`"""a"""`, nil},
		{`"\q"`, nil},
		{`"\x4"`, nil},
		{`"\u12"`, nil},
		{`"\uzzzz"`, nil},
		{`"\ud800"`, nil},
		{`"\U00110000"`, nil},
		{"\"a\n\"", nil},
		{"\"\xff\"", nil},
		{"ü", nil},
	}
	for _, tt := range tests {
		got, ok := SplitKey(tt.text)
		if ok != (tt.parts != nil) || !slices.Equal(got, tt.parts) {
			t.Errorf("splitKey(%s) = %q, %v, want %q", tt.text, got, ok, tt.parts)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.StringN(1, 8, -1), 1, 5).Draw(t, "parts")
		if got, ok := SplitKey(JoinKey(parts)); !ok || !slices.Equal(got, parts) {
			t.Fatalf("splitKey(%s) = %q, %v, want %q", JoinKey(parts), got, ok, parts)
		}
	})
	if got, want := JoinKey([]string{"a", "*", "b.c", `"\`, "\x1b\u202e", "", "ü"}), `a.*."b.c"."\"\\"."\u001B\u202E".""."ü"`; got != want {
		t.Errorf("joinKey = %s, want %s", got, want)
	}
}
