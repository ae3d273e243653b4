package profiles

import (
	"slices"
	"strings"
	"testing"

	"jp/profiles/tomldoc"
)

func TestParseDirective(t *testing.T) {
	const empty = "--cfg: is empty (give NONE, WORKSPACE, key=value, a path, builtin:<name> or the name of a profile)"
	const notName = "--cfg: is neither a path nor the name of a profile (write ./ before the path of a file)"
	tests := []struct {
		text string
		want parsed
		err  string
	}{
		{text: "NONE", want: parsed{form: noneForm}},
		{text: "WORKSPACE", want: parsed{form: workspaceForm}},
		{text: "none", want: parsed{form: nameForm, arg: "none"}},
		{text: "NONE.toml", want: parsed{form: pathForm, arg: "NONE.toml"}},
		{text: "./NONE", want: parsed{form: pathForm, arg: "./NONE"}},
		{text: "a=b", want: parsed{form: assignForm, key: []string{"a"}, arg: "b"}},
		{text: "a.b=", want: parsed{form: assignForm, key: []string{"a", "b"}}},
		{text: "a=b=c", want: parsed{form: assignForm, key: []string{"a"}, arg: "b=c"}},
		{text: "a= b ", want: parsed{form: assignForm, key: []string{"a"}, arg: " b "}},
		{text: "a:=1", want: parsed{form: assignForm, key: []string{"a"}, arg: "1", json: true}},
		{text: "a=:=1", want: parsed{form: assignForm, key: []string{"a"}, arg: ":=1"}},
		{text: "NONE=1", want: parsed{form: assignForm, key: []string{"NONE"}, arg: "1"}},
		{text: `a."b.c".'d=e'=1`, err: "--cfg: has no key before = (write key=value, or ./ before the path of a file)"},
		{text: `a."b.c".'d'=1`, want: parsed{form: assignForm, key: []string{"a", "b.c", "d"}, arg: "1"}},
		{text: "a.*.b=1", want: parsed{form: assignForm, key: []string{"a", "*", "b"}, arg: "1"}},
		{text: "a=x.toml", want: parsed{form: assignForm, key: []string{"a"}, arg: "x.toml"}},
		{text: "./a=b.toml", want: parsed{form: pathForm, arg: "./a=b.toml"}},
		{text: "@a=b", want: parsed{form: pathForm, arg: "a=b"}},
		{text: "@x", want: parsed{form: pathForm, arg: "x"}},
		{text: "x.toml", want: parsed{form: pathForm, arg: "x.toml"}},
		{text: "../x", want: parsed{form: pathForm, arg: "../x"}},
		{text: "/x", want: parsed{form: pathForm, arg: "/x"}},
		{text: "~/x", want: parsed{form: pathForm, arg: "~/x"}},
		{text: "builtin:agent/x", want: parsed{form: builtinForm, arg: "agent/x"}},
		{text: "builtin:", want: parsed{form: builtinForm}},
		{text: "builtin:x.toml", want: parsed{form: pathForm, arg: "builtin:x.toml"}},
		{text: "agent/x", want: parsed{form: nameForm, arg: "agent/x"}},
		{text: "a,b", want: parsed{form: nameForm, arg: "a,b"}},
		{text: "", err: empty},
		{text: "@", err: "--cfg: names no file after @"},
		{text: "=x", err: "--cfg: has no key before = (write key=value, or ./ before the path of a file)"},
		{text: "a..b=x", err: "--cfg: has no key before = (write key=value, or ./ before the path of a file)"},
		{text: "a b=x", err: "--cfg: has no key before = (write key=value, or ./ before the path of a file)"},
		{text: "a+=x", err: "--cfg: has no key before = (write key=value, or ./ before the path of a file)"},
		{text: `"".a=x`, err: "--cfg: has no key before = (write key=value, or ./ before the path of a file)"},
		{text: "a/../../x", err: notName},
		{text: "a//b", err: notName},
		{text: ".", err: notName},
		{text: "..", err: notName},
		{text: `a\b`, err: notName},
		{text: "a\nb", err: notName},
		{text: "a\x00", err: "--cfg: is not UTF-8 text"},
		{text: "\xff", err: "--cfg: is not UTF-8 text"},
		{text: strings.Repeat("a.", 24) + "a=1", err: "--cfg: has no key before = (write key=value, or ./ before the path of a file)"},
	}
	w := newWorld(t, nil)
	for _, tt := range tests {
		got, err := parseDirective(Directive{Flag: "--cfg", Text: tt.text})
		if tt.err != "" {
			if msg := w.failure(err); msg != tt.err {
				t.Errorf("parseDirective(%q) = %s, want %s", tt.text, msg, tt.err)
			}
			continue
		}
		tt.want.flag, tt.want.text = "--cfg", tt.text
		if err != nil || !sameDirective(got, tt.want) {
			t.Errorf("parseDirective(%q) = %+v, %v, want %+v", tt.text, got, err, tt.want)
		}
	}
}

func sameDirective(a, b parsed) bool {
	return a.flag == b.flag && a.form == b.form && a.text == b.text && a.arg == b.arg && slices.Equal(a.key, b.key) && a.json == b.json
}

// FuzzDirective: no text can make Resolve panic, read what NONE does not read, or fail with
// anything but an *Error that says something on one line.
func FuzzDirective(f *testing.F) {
	for _, s := range []string{
		"NONE", "WORKSPACE", "assistant.model=a/b", `delegation.profiles:=["a"]`, `assistant:={"name":"x"}`, "conversation.tools.x.enable=false",
		`providers.llm.prices."a/b":={"input":1,"output":2.5}`, "conversation.tools.'*'.run=ask", "style.tool_call.show=0", "delegation.timeout=1h",
		"builtin:agent/planner", "agent/reviewer", "./x.toml", "@x", "a:={", "a=", "~/x", "delegation.max_cost_per_session=1e400", "delegation.token_budget=unlimited",
		`conversation.tools:={"a":{"b":[1,{"c":null}]}}`, "assistant.parameters.temperature=0x1p-2", `config_load_paths:=["/"]`, `conversation.tools.a:={"\ud800":"\u0000"}`,
	} {
		f.Add(s, s)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, first, second string) {
		for _, ds := range [][]Directive{{{Flag: "--cfg", Text: first}}, {{Flag: "--cfg", Text: first}, {Flag: "--cfg", Text: second}}, {{Flag: "--cfg", Text: "NONE"}, {Flag: "--cfg", Text: first}}} {
			p, err := parseDirective(ds[len(ds)-1])
			if err == nil && p.form == pathForm {
				continue // would read what is on this machine
			}
			if err == nil && p.form == assignForm && !slices.Equal(mustSplit(t, tomldoc.JoinKey(p.key)), p.key) {
				t.Fatalf("key %q is not read back from %s", p.key, tomldoc.JoinKey(p.key))
			}
			if p, err := parseDirective(ds[0]); err == nil && p.form == pathForm {
				continue
			}
			r, err := Resolve(Sources{Dir: dir, Environ: []string{"HOME=" + dir}}, ds, nil)
			if err != nil {
				if e, ok := err.(*Error); !ok || e.Msg == "" || strings.ContainsAny(e.Error(), "\n\r\x1b") {
					t.Fatalf("Resolve(%+v) = %#v", ds, err)
				}
				continue
			}
			stored := r.Stored()
			again, err := Resolve(Sources{Dir: dir, Stored: stored}, nil, nil)
			if err != nil {
				t.Fatalf("Resolve(%+v) stores %s, which is refused: %v", ds, stored, err)
			}
			if string(again.Stored()) != string(stored) {
				t.Fatalf("Resolve(%+v) stores %s, which is stored as %s", ds, stored, again.Stored())
			}
			r.Keys()
			for _, k := range []string{"assistant.model", first} {
				r.Origin(k)
			}
		}
	})
}

func mustSplit(t *testing.T, key string) []string {
	t.Helper()
	parts, ok := tomldoc.SplitKey(key)
	if !ok {
		t.Fatalf("%s is no key", key)
	}
	return parts
}

// FuzzTOML: no file can make Resolve panic or fail without naming the file; what is accepted is
// stored and read back the same.
func FuzzTOML(f *testing.F) {
	for _, s := range tomlSeeds() {
		f.Add(s)
	}
	for _, s := range []string{userConfig, workspaceConfig, profileConfig, resetConfig, "extends = ['x']", "delegation = { max_depth = 9, profiles = [] }",
		"[assistant]\nparameters.temperature = 1\n[conversation.tools.a]\nx = [1.0, 2, true, {y = -0.0}]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		r, err := newResolver(Sources{Dir: "/"})
		if err != nil {
			t.Fatal(err)
		}
		d := &document{layer: Layer{Kind: FileLayer, Name: "--cfg", File: "/f.toml"}}
		err = d.parse([]byte(src))
		if err == nil {
			err = r.add(d)
		}
		res := r.Resolved
		if err == nil {
			err = r.finish()
		}
		if err != nil {
			if e, ok := err.(*Error); !ok || e.File != "/f.toml" || e.Line < 1 && !strings.HasPrefix(e.Msg, "not valid TOML") || e.Msg == "" || strings.ContainsAny(e.Error(), "\n\r\x1b") {
				t.Fatalf("%q = %#v", src, err)
			}
			return
		}
		again, err := Resolve(Sources{Dir: "/", Stored: res.Stored()}, nil, nil)
		if err != nil || string(again.Stored()) != string(res.Stored()) {
			t.Fatalf("%q stores %s: %v, %s", src, res.Stored(), err, again.Stored())
		}
		for _, v := range res.Keys() {
			if !v.Default && (v.Origin.File != "/f.toml" || v.Origin.Line < 1) {
				t.Fatalf("%q: %s is from %v", src, v.Key, v.Origin)
			}
		}
	})
}
