package tools

import (
	"testing"

	"jp/tools/fs"
)

func TestAuthority(t *testing.T) {
	decode := func(table map[string]any) Definition {
		t.Helper()
		d, err := Decode("count", table, func(string) string { return "x.toml:1" })
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	base := func() map[string]any {
		return map[string]any{
			"source": "local", "description": "Counts.", "command": map[string]any{"program": "wc", "args": []any{"-w", "--", "{{tool.arguments.path}}"}},
			"parameters": map[string]any{"path": map[string]any{"type": "string", "required": true}},
		}
	}
	same := decode(base()).Authority()
	words := base()
	words["description"], words["run"], words["timeout"] = "Counts words.", "unattended", "5s"
	if got := decode(words).Authority(); got != same || same == "" {
		t.Errorf("other words, leave and limits: authority %q, want %q", got, same)
	}
	for name, change := range map[string]func(m map[string]any){
		"program": func(m map[string]any) { m["command"].(map[string]any)["program"] = "cat" },
		"argument": func(m map[string]any) {
			m["command"].(map[string]any)["args"] = []any{"-c", "--", "{{tool.arguments.path}}"}
		},
		"env": func(m map[string]any) { m["env"] = []any{"GOFLAGS"} },
		"access": func(m map[string]any) {
			m["access"] = map[string]any{"fs": []any{map[string]any{"path": "/", "mode": "ro"}}}
		},
		"stdin":   func(m map[string]any) { m["stdin"] = "json" },
		"network": func(m map[string]any) { m["network"] = "any" },
		"schema": func(m map[string]any) {
			m["parameters"].(map[string]any)["path"] = map[string]any{"type": "string", "required": true, "enum": []any{"a"}}
		},
		"dash": func(m map[string]any) {
			m["parameters"].(map[string]any)["path"] = map[string]any{"type": "string", "required": true, "allow_dash": true}
		},
	} {
		table := base()
		change(table)
		if decode(table).Authority() == same {
			t.Errorf("another %s has the same authority", name)
		}
	}
	builtin, _ := Embedded("fs_read_file")
	if own := builtin; own.Authority() == "" || own.Authority() == same {
		t.Errorf("authority of fs_read_file = %q", own.Authority())
	}
	wide := builtin
	wide.Access.FS = []fs.Rule{{Path: "/", Mode: fs.ReadOnly}}
	if wide.Authority() == builtin.Authority() {
		t.Error("a wider access has the same authority")
	}
}
