package profiles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"jp/profiles/ondisk"
	"jp/profiles/skill"
	"jp/profiles/tomldoc"
)

func skillFile(name string) string {
	return "---\nname: " + name + "\ndescription: Does " + name + ".\n---\nHow to do " + name + ".\n"
}

const section = "[llm_tool_a]\nsystem_prompt_patch = Be strict.\nsession_id = s\nskill = k\n"

// TestSpecializations: cases S1 of the conformance table, and what is stricter here. Not taken
// over: keys before a section are an error (there is nothing that they could mean here), $VAR is
// not expanded (a value is what it says), a # or ; without a space before it is an error (it cut
// off what was meant).
func TestSpecializations(t *testing.T) {
	tests := []struct {
		name, ini string
		want      string // the tools with their values, or the error
	}{
		{"several, one with a window", section + "context_window = 8\n[llm_tool_B-2]\nskill=k\nsession_id=t\nsystem_prompt_patch=Explore.\n",
			"llm_tool_B-2(Explore.|t|k|0) llm_tool_a(Be strict.|s|k|8)"},
		{"window 0", section + "context_window = 0\n", "llm_tool_a(Be strict.|s|k|0)"},
		{"window below 0", section + "context_window = -1\n", "F:5: llm_tool_a.context_window: must be a whole number from 0 (all earlier turns) to 1000000"},
		{"window of a fraction", section + "context_window = 1.5", "F:5: llm_tool_a.context_window: must be a whole number from 0 (all earlier turns) to 1000000"},
		{"window with a sign", section + "context_window = +1", "F:5: llm_tool_a.context_window: must be a whole number from 0 (all earlier turns) to 1000000"},
		{"window too large", section + "context_window = 9999999999999999999999", "F:5: llm_tool_a.context_window: must be a whole number from 0 (all earlier turns) to 1000000"},
		{"window in quotes", section + `context_window = "8"`, "llm_tool_a(Be strict.|s|k|8)"},
		{"no patch", "[llm_tool_a]\nsession_id = s\nskill = k\n", "F:1: llm_tool_a.system_prompt_patch: is missing"},
		{"no session", "\n[llm_tool_a]\nsystem_prompt_patch = p\nskill = k\n", "F:2: llm_tool_a.session_id: is missing"},
		{"no skill", "[llm_tool_a]\nsystem_prompt_patch = p\nsession_id = s\n", "F:1: llm_tool_a.skill: is missing"},
		{"empty patch", "[llm_tool_a]\nsystem_prompt_patch =\nsession_id = s\nskill = k\n", "F:2: llm_tool_a.system_prompt_patch: must not be empty"},
		{"empty session", "[llm_tool_a]\nsystem_prompt_patch = p\nsession_id = \"  \"\nskill = k\n", "F:3: llm_tool_a.session_id: must not be empty"},
		{"empty skill", "[llm_tool_a]\nsystem_prompt_patch = p\nsession_id = s\nskill = ; none\n", "F:4: llm_tool_a.skill: must not be empty"},
		{"no name", "[llm_tool_]\n", "F:1: llm_tool_: the name behind llm_tool_ is missing"},
		{"spaces in a name", "[llm_tool_a b]\n", "F:1: llm_tool_a b: a tool's name is at most 64 letters, digits, _ and -"},
		{"name too long", "[llm_tool_" + strings.Repeat("x", 56) + "]\n", "F:1: llm_tool_" + strings.Repeat("x", 56) + ": a tool's name is at most 64 letters, digits, _ and -"},
		{"empty file", "", ""},
		{"only comments", "# a\n  ; b\n\n", ""},
		{"only another section", "[slop]\na = 1\n", ""},
		{"another section beside", "[slop]\na.b = 1\n" + section, "llm_tool_a(Be strict.|s|k|0)"},
		{"inline comments", "[llm_tool_a] ; x\nsystem_prompt_patch = p # q\nsession_id = s ;t\nskill = k\t# 1\n", "llm_tool_a(p|s|k|0)"},
		{"variables", "[llm_tool_a]\nsystem_prompt_patch = $HOME ${HOME} %(skill)s\nsession_id = $UNSET\nskill = k\n", "llm_tool_a($HOME ${HOME} %(skill)s|$UNSET|k|0)"},
		{"key before a section", "skill = k\n", "F:1: skill: the key is before any section"},
		{"section twice", section + section, "F:5: llm_tool_a: the section is there twice, first in line 1"},
		{"other section twice", "[slop]\n[slop]\n", "F:2: slop: the section is there twice, first in line 1"},
		{"section twice but for case", section + "[llm_tool_A]\n", "F:5: llm_tool_A: differs only in case from the tool of line 1"},
		{"key twice", section + "skill = k\n", "F:5: llm_tool_a.skill: the key is there twice, first in line 4"},
		{"reserved suffix", "[llm_tool_fs_read_file]\n", "F:1: llm_tool_fs_read_file: the name is that of a tool that jp brings along"},
		{"reserved llm_query", "[llm_tool_llm_query]\n", "F:1: llm_tool_llm_query: the name is that of a tool that jp brings along"},
		{"reserved whole", "[llm_tool_taken]\n", "F:1: llm_tool_taken: the name is that of a tool that jp brings along"},
		{"unknown key", section + "context_windwo = 8\n", "F:5: llm_tool_a.context_windwo: unknown key (did you mean context_window?)"},
		{"unknown key, nothing near", section + "model = x/y\n", "F:5: llm_tool_a.model: unknown key"},
		{"key of other case", section + "Skill = k\n", "F:5: llm_tool_a.Skill: unknown key (did you mean skill?)"},
		{"unknown skill", strings.Replace(section, "= k", "= nosuch", 1), "F:4: llm_tool_a.skill: skill nosuch: not found in .jp/skills, .agents/skills or .claude/skills, here or in the home folder"},
		{"skill that is a path", strings.Replace(section, "= k", "= ../k", 1), "F:4: llm_tool_a.skill: the name of a skill is at most 64 letters, digits, _ and -"},
		{"misspelled prefix", "[llm_tol_a]\n", "F:1: llm_tol_a: unknown section (did you mean [llm_tool_<name>]?)"},
		{"prefix of other case", "[LLM_TOOL_a]\n", "F:1: LLM_TOOL_a: unknown section (did you mean [llm_tool_<name>]?)"},
		{"session of several lines", "[llm_tool_a]\nsession_id = \"\"\"a\nb\"\"\"\n", "F:2: llm_tool_a.session_id: must be at most 128 bytes in one line"},

		{"double quotes keep # and ;", strings.Replace(section, "Be strict.", `"C# code; strict" ; comment`, 1), "llm_tool_a(C# code; strict|s|k|0)"},
		{"single quotes keep # and ;", strings.Replace(section, "Be strict.", `'C# code; "strict"\n'`, 1), `llm_tool_a(C# code; "strict"\n|s|k|0)`},
		{"escapes", strings.Replace(section, "Be strict.", `"a \"b\" c\\"`, 1), `llm_tool_a(a "b" c\|s|k|0)`},
		{"other escapes stay", strings.Replace(section, "Be strict.", `"a\tb"`, 1), `llm_tool_a(a\tb|s|k|0)`},
		{"# inside a word", strings.Replace(section, "Be strict.", "C# code", 1), "F:2: llm_tool_a.system_prompt_patch: holds #: put the value in quotes"},
		{"; after a word", strings.Replace(section, "Be strict.", "code; strict", 1), "F:2: llm_tool_a.system_prompt_patch: holds ;: put the value in quotes"},
		{"text behind a quote", strings.Replace(section, "Be strict.", `"a" b`, 1), `F:2: llm_tool_a.system_prompt_patch: must not go on behind the closing "`},
		{"a comment with quotes", strings.Replace(section, "Be strict.", `"a" ; "b"`, 1), `llm_tool_a(a|s|k|0)`},
		{"open quote", strings.Replace(section, "Be strict.", `"a`, 1), `F:2: llm_tool_a.system_prompt_patch: the " is not closed`},
		{"escaped closing quote", strings.Replace(section, "Be strict.", `"a\"`, 1), `F:2: llm_tool_a.system_prompt_patch: the " is not closed`},
		{"apostrophe first", strings.Replace(section, "Be strict.", `'tis strict`, 1), `F:2: llm_tool_a.system_prompt_patch: the ' is not closed`},
		{"backquote", strings.Replace(section, "Be strict.", "`a`", 1), "F:2: llm_tool_a.system_prompt_patch: must not begin with `: quote with \""},
		{"continuation", strings.Replace(section, "Be strict.", "a \\", 1), `F:2: llm_tool_a.system_prompt_patch: must not end with \: a value of several lines is written between """ and """`},
		{"several lines", strings.Replace(section, "Be strict.", "\"\"\"\nBe; # strict.\n[llm_tool_b]\n  skill = x\n\"\"\"", 1), "llm_tool_a(Be; # strict.\n[llm_tool_b]\n  skill = x|s|k|0)"},
		{"several lines on one", strings.Replace(section, "Be strict.", `"""a "b" c"""`, 1), `llm_tool_a(a "b" c|s|k|0)`},
		{"open several lines", strings.Replace(section, "Be strict.", "\"\"\"\nBe strict.", 1), `F:2: the """ is not closed`},
		{"text behind several lines", strings.Replace(section, "Be strict.", "\"\"\"a\nb\"\"\" c", 1), `F:3: must not go on behind the closing """`},
		{"text behind several lines on one", strings.Replace(section, "Be strict.", `"""a""" """`, 1), `F:2: llm_tool_a.system_prompt_patch: must not go on behind the closing """`},
		{"four quotes", strings.Replace(section, "Be strict.", `"""a""""`, 1), `F:2: llm_tool_a.system_prompt_patch: must not go on behind the closing """`},

		{"byte order mark and CRLF", "\ufeff" + strings.ReplaceAll(section, "\n", "\r\n"), "llm_tool_a(Be strict.|s|k|0)"},
		{"several lines with CRLF", strings.ReplaceAll(strings.Replace(section, "Be strict.", "\"\"\"a\nb\"\"\"", 1), "\n", "\r\n"), "llm_tool_a(a\nb|s|k|0)"},
		{"no newline at the end", strings.TrimSpace(section), "llm_tool_a(Be strict.|s|k|0)"},
		{"UTF-16", "\xff\xfe[\x00", "F:1: not UTF-8 text"},
		{"not UTF-8", section + "\xff", "F:5: not UTF-8 text"},
		{"NUL", section + "a\x00", "F:5: must not contain control characters"},
		{"lone CR", section + "a\rb", "F:5: must not contain control characters"},
		{"no =", section + "skill: k\n", "F:5: is no section, comment or key = value"},
		{"no key", section + "= k\n", "F:5: a key must be letters, digits, . - and _"},
		{"counting key", section + "- = k\n", "F:5: a key must be letters, digits, . - and _"},
		{"quoted key", section + "\"x\" = k\n", "F:5: a key must be letters, digits, . - and _"},
		{"open section", "[llm_tool_a\n", "F:1: a section must end with ]"},
		{"empty section", "[]\n", "F:1: the name of a section must not be empty, quoted or surrounded by spaces"},
		{"spaces around a section", "[ llm_tool_a ]\n", "F:1: the name of a section must not be empty, quoted or surrounded by spaces"},
		{"text behind a section", "[llm_tool_a] x\n", "F:1: llm_tool_a: only a comment without ] may follow a section on its line"},
		{"] behind a section", "[llm_tool_a] ; ]\n", "F:1: llm_tool_a: only a comment without ] may follow a section on its line"},
		{"section like a child of another", section + "[llm_tool_a.b]\n", "F:5: llm_tool_a.b: a tool's name is at most 64 letters, digits, _ and -"},
		{"child of another section", "[a]\nx = 1\n[a.b]\ny = 1\n", ""},
		{"the library's own section", "[DEFAULT]\nx = 1\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"WS/.jp/specializations.ini": tt.ini, "WS/.jp/skills/k/SKILL.md": skillFile("k")})
			list, err := LoadSpecializations(w.src, "", []string{"llm_query", "fs_read_file", "llm_tool_taken"})
			var got []string
			for _, s := range list {
				got = append(got, fmt.Sprintf("%s(%s|%s|%s|%d)", s.Tool, s.Patch, s.Session, s.Skill.Name, s.ContextWindow))
			}
			text := strings.Join(got, " ")
			if err != nil {
				text = strings.ReplaceAll(explain(err), w.path("WS/.jp/specializations.ini"), "F")
				if len(list) > 0 {
					t.Errorf("an error comes with %d specializations", len(list))
				}
			}
			if text != tt.want {
				t.Errorf("got  %s\nwant %s", text, tt.want)
			}
		})
	}
}

// explain is an error with its hint.
func explain(err error) string {
	var e *Error
	if errors.As(err, &e) && e.Hint != "" {
		return e.Error() + " (" + e.Hint + ")"
	}
	return err.Error()
}

func TestSpecializationsFile(t *testing.T) {
	w := newWorld(t, map[string]string{"WS/.jp/skills/k/SKILL.md": skillFile("k"), "WS/x.ini": section})
	load := func(file string) string {
		list, err := LoadSpecializations(w.src, file, nil)
		if err != nil {
			return strings.ReplaceAll(explain(err), w.dir, "")
		}
		return fmt.Sprint(len(list))
	}
	check := func(name, file, want string) {
		t.Helper()
		if got := load(file); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	check("absent", "", "0")
	check("absent and named", ".jp/y.ini", "/WS/.jp/y.ini: not found")
	check("named by a person", "x.ini", "1")
	ini := w.path("WS/.jp/specializations.ini")
	if err := os.Symlink("../x.ini", ini); err != nil {
		t.Fatal(err)
	}
	check("link out of .jp", "", "/WS/.jp/specializations.ini: leads out of the workspace's .jp folder")
	remove(t, ini)
	if err := syscall.Mkfifo(ini, 0o600); err != nil {
		t.Fatal(err)
	}
	check("pipe", "", "/WS/.jp/specializations.ini: is not a regular file")
	remove(t, ini)
	w.write("WS/.jp/specializations.ini", "#"+strings.Repeat("x", maxFileBytes))
	check("too large", "", "/WS/.jp/specializations.ini: larger than 1024 KiB")
	var many strings.Builder
	for i := range maxSpecializations + 1 {
		many.WriteString(strings.Replace(section, "llm_tool_a", fmt.Sprint("llm_tool_", i), 1))
	}
	w.write("WS/.jp/specializations.ini", many.String())
	check("too many", "", fmt.Sprintf("/WS/.jp/specializations.ini:%d: llm_tool_64: more than 64 specializations", 64*4+1))
}

func remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
}

func TestSpecializationHash(t *testing.T) {
	w := newWorld(t, map[string]string{"WS/.jp/specializations.ini": section, "WS/.jp/skills/k/SKILL.md": skillFile("k")})
	hash := func() string {
		list, err := LoadSpecializations(w.src, "", nil)
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		if want := w.path("WS/.jp/specializations.ini") + "#llm_tool_a"; list[0].Arg != want {
			t.Errorf("Arg = %s, want %s", list[0].Arg, want)
		}
		return list[0].Hash
	}
	seen := []string{hash()}
	w.write("WS/.jp/specializations.ini", "; comment\n\n"+section)
	if got := hash(); got != seen[0] {
		t.Error("a comment changes the hash")
	}
	for _, change := range []func(){
		func() { w.write("WS/.jp/specializations.ini", strings.Replace(section, "strict", "kind", 1)) },
		func() { w.write("WS/.jp/specializations.ini", section+"context_window = 1\n") },
		func() { w.write("WS/.jp/skills/k/SKILL.md", skillFile("k")+"More.\n") },
	} {
		change()
		got := hash()
		if slices.Contains(seen, got) {
			t.Errorf("a change leaves the hash at %s", got)
		}
		seen = append(seen, got)
	}
}

func TestSkillPlaces(t *testing.T) {
	places := []string{"WS/.jp", "WS/.agents", "WS/.claude", "OUT/.jp", "OUT/.agents", "OUT/.claude"}
	w := newWorld(t, map[string]string{"WS/.jp/specializations.ini": section})
	for _, place := range places {
		w.write(place+"/skills/k/SKILL.md", skillFile("k"))
	}
	file := func() string {
		list, err := LoadSpecializations(w.src, "", nil)
		if err != nil {
			return strings.ReplaceAll(explain(err), w.dir, "")
		}
		return strings.TrimPrefix(list[0].Skill.File, w.dir+"/")
	}
	for _, place := range places {
		if got, want := file(), place+"/skills/k/SKILL.md"; got != want {
			t.Errorf("found %s, want %s", got, want)
		}
		// The first place counts even when what it has cannot be used.
		w.write(place+"/skills/k/SKILL.md", "broken")
		if got, want := file(), "/WS/.jp/specializations.ini:4: llm_tool_a.skill: /"+place+"/skills/k/SKILL.md:1: must begin with a frontmatter between lines of ---"; got != want {
			t.Errorf("broken: %s, want %s", got, want)
		}
		if err := os.RemoveAll(w.path(place)); err != nil {
			t.Fatal(err)
		}
		if place == "WS/.jp" {
			w.write("WS/.jp/specializations.ini", section)
		}
	}
	if got, want := file(), "/WS/.jp/specializations.ini:4: llm_tool_a.skill: skill k: not found in .jp/skills, .agents/skills or .claude/skills, here or in the home folder"; got != want {
		t.Errorf("%s, want %s", got, want)
	}

	// A workspace's skills stay in it.
	w.write("OUT/k/SKILL.md", skillFile("k"))
	for _, place := range []string{"WS/.agents", "WS/.jp"} {
		dir := w.path(place + "/skills")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(w.path("OUT/k"), filepath.Join(dir, "k")); err != nil {
			t.Fatal(err)
		}
		base := strings.TrimSuffix(place, "/.agents")
		if got, want := file(), "/WS/.jp/specializations.ini:4: llm_tool_a.skill: /"+place+"/skills/k/SKILL.md: leads out of /"+base; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if err := os.RemoveAll(w.path("WS/.jp/skills")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(w.path("WS/.agents")); err != nil {
		t.Fatal(err)
	}
	w.write("WS/.claude/skills/k/SKILL.md", skillFile("k")+strings.Repeat("x", skill.MaxBytes))
	if got, want := file(), "/WS/.jp/specializations.ini:4: llm_tool_a.skill: /WS/.claude/skills/k/SKILL.md: larger than 256 KiB"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	remove(t, w.path("WS/.claude/skills/k/SKILL.md"))
	if err := syscall.Mkfifo(w.path("WS/.claude/skills/k/SKILL.md"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := file(), "/WS/.jp/specializations.ini:4: llm_tool_a.skill: /WS/.claude/skills/k/SKILL.md: is not a regular file"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestSkillName: the name of the folder counts, which is what sections and agents ask for.
func TestSkillName(t *testing.T) {
	w := newWorld(t, map[string]string{"WS/.jp/specializations.ini": section, "WS/.jp/skills/k/SKILL.md": skillFile("other")})
	found, problems := Skills(w.src)
	if len(problems) > 0 || len(found) != 1 || found[0].Name != "k" || len(found[0].Notes) != 1 || !strings.Contains(found[0].Notes[0], `calls it "other"`) {
		t.Errorf("Skills() = %+v, %v", found, problems)
	}
	if _, err := LoadSpecializations(w.src, "", nil); err != nil {
		t.Error(err)
	}
}

// TestSpecializationLayers: who has the tools. Sections are registered for agents that the
// workspace configures, and for nobody else.
func TestSpecializationLayers(t *testing.T) {
	base := map[string]string{
		"WS/.jp/specializations.ini": section, "WS/.jp/skills/k/SKILL.md": skillFile("k"),
		"WS/.jp/config/p.toml": "[loader]\nreset = 'none'\n[assistant]\nmodel = 'a/b'\n", "OUT/over.toml": "[assistant]\nmodel = 'a/b'\n",
	}
	tests := []struct {
		name   string
		files  map[string]string
		cfg    []string
		stored string
		want   string // of the tool's table
		warn   string
	}{
		{name: "new", want: `{"run":"unattended","source":"delegation"}`},
		{name: "asked for", files: map[string]string{"WS/.jp/config.toml": "[conversation.tools.llm_tool_a]\nrun = 'ask'\n"}, want: `{"run":"ask","source":"delegation"}`},
		{name: "off", files: map[string]string{"WS/.jp/config.toml": "[conversation.tools.llm_tool_a]\nenable = false\n"}, want: `{"enable":false,"run":"unattended","source":"delegation"}`},
		{name: "default for all", files: map[string]string{"WS/.jp/config.toml": "[conversation.tools.'*']\nrun = 'deny'\n"}, want: `{"source":"delegation"}`},
		{name: "overlay", cfg: []string{"OUT/over.toml", "conversation.tools.llm_tool_a.run=ask"}, want: `{"run":"ask","source":"delegation"}`},
		{name: "workspace again", cfg: []string{"WORKSPACE"}, stored: `{}`, want: `{"run":"unattended","source":"delegation"}`},
		{name: "none", cfg: []string{"NONE"}},
		{name: "a profile that resets", cfg: []string{"p"}},
		{name: "stored without it", stored: `{}`},
		{name: "stored with it", stored: `{"conversation":{"tools":{"llm_tool_a":{"run":"ask","source":"delegation"}}}}`, want: `{"run":"ask","source":"delegation"}`},
		{name: "stored and gone", stored: `{"conversation":{"tools":{"llm_tool_b":{"source":"delegation"}}}}`, warn: "tool llm_tool_b: its section is gone, and the tool with it"},
		{name: "another file", files: map[string]string{"WS/.jp/config.toml": "[delegation]\nspecializations = '.jp/other.ini'\n", "WS/.jp/other.ini": "[slop]\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, base)
			for name, text := range tt.files {
				w.write(name, text)
			}
			if tt.stored != "" {
				w.src.Stored = []byte(tt.stored)
			}
			var ds []Directive
			for _, text := range tt.cfg {
				ds = append(ds, Directive{Flag: "--cfg", Text: strings.Replace(text, "OUT/", w.path("OUT")+"/", 1)})
			}
			r, err := Resolve(w.src, ds, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if table, ok := r.Tools["llm_tool_a"]; ok {
				got = string(tomldoc.Canonical(table.Values))
				if _, ok := r.Specializations["llm_tool_a"]; !ok {
					t.Error("the tool has no section")
				}
			}
			if got != tt.want {
				t.Errorf("table = %s, want %s", got, tt.want)
			}
			if got := strings.Join(r.Warnings, "\n"); got != tt.warn {
				t.Errorf("warnings = %q, want %q", got, tt.warn)
			}
			// What is stored leads to the same tools again.
			w.src.Stored = r.Stored()
			again, err := Resolve(w.src, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(sortedKeys(again.Tools), sortedKeys(r.Tools)) || string(again.Stored()) != string(r.Stored()) {
				t.Errorf("resolved again: tools %v of %s, want %v of %s", sortedKeys(again.Tools), again.Stored(), sortedKeys(r.Tools), r.Stored())
			}
		})
	}

	w := newWorld(t, base)
	r, err := Resolve(w.src, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := r.Tools["llm_tool_a"].Pos("run")
	if want := (Position{File: w.path("WS/.jp/specializations.ini"), Line: 1, Layer: "specializations"}); at != want {
		t.Errorf("position = %v, want %v", at, want)
	}
	// A person who trusts files can see what was read, in a new conversation and in one that goes
	// on.
	for range 2 {
		var read []string
		for _, l := range r.Layers {
			if l.Kind == INILayer && len(l.SHA256) == 64 {
				read = append(read, l.Name+" "+strings.TrimPrefix(l.File, w.dir))
			}
		}
		slices.Sort(read)
		if got, want := strings.Join(read, "\n"), "skill k /WS/.jp/skills/k/SKILL.md\nspecializations /WS/.jp/specializations.ini"; got != want {
			t.Errorf("layers:\n%s\nwant\n%s", got, want)
		}
		w.src.Stored = r.Stored()
		if r, err = Resolve(w.src, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	w.src.Stored = nil
	w.write("WS/.jp/config.toml", "[conversation.tools.llm_tool_a]\nsource = 'local'\ncommand = 'x'\n")
	_, err = Resolve(w.src, nil, nil)
	if want := w.path("WS/.jp/specializations.ini") + ":1: llm_tool_a: a tool of this name is configured at " + w.path("WS/.jp/config.toml") + ":2 already"; err == nil || err.Error() != want {
		t.Errorf("name taken: %v, want %s", err, want)
	}
}

// TestExampleSubqueries: the example of the guide is one that works.
func TestExampleSubqueries(t *testing.T) {
	data, err := os.ReadFile("../docs/example_subqueries.ini")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/delegation.md")
	if err != nil {
		t.Fatal(err)
	}
	_, skill, _ := strings.Cut(string(page), "`.jp/skills/code-reviewer/SKILL.md`:\n\n")
	skill, _, _ = strings.Cut(skill, "\n\n")
	skill = strings.ReplaceAll("\n"+skill+"\n", "\n    ", "\n")[1:]
	w := newWorld(t, map[string]string{
		"WS/.jp/specializations.ini":           string(data),
		"WS/.jp/skills/code-reviewer/SKILL.md": skill, "WS/.jp/skills/explorer/SKILL.md": skillFile("explorer"),
	})
	list, err := LoadSpecializations(w.src, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].ContextWindow != 8 || list[1].Session != "explorer" || !strings.Contains(list[1].Patch, `"C#" and C++`) {
		t.Errorf("loaded %+v", list)
	}
}

func FuzzSpecializations(f *testing.F) {
	example, err := os.ReadFile("../docs/example_subqueries.ini")
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		"", section, section + "context_window = 20\n", "[llm_tool_]\n", "[llm_tool_a]\nsystem_prompt_patch =\n", "[slop]\na = 1\n", string(example),
		section + section, "[a]\nk = \"\"\"\nx\n\"\"\"\n", "[a]\nk = 'x' # y\n", "[a]\nk = `\n`\n", "[a]\nk = \"a\\\"\n", "[a]\n\"\"\"k\"\"\" = v\n", "[DEFAULT]\nk=%(k)s\n", "\ufeff[a]\r\nk=v\r\n",
	} {
		f.Add([]byte(seed))
	}
	w := &world{dir: f.TempDir()}
	dir := filepath.Join(w.dir, ".jp", "skills", "k")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte(skillFile("k")), 0o600); err != nil {
		f.Fatal(err)
	}
	file := filepath.Join(w.dir, ".jp", "specializations.ini")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		src := Sources{Workspace: w.dir, Files: ondisk.FS(w.dir), Dir: w.dir}
		list, err := LoadSpecializations(src, "", []string{"llm_query"})
		again, err2 := LoadSpecializations(src, "", []string{"llm_query"})
		if fmt.Sprint(err) != fmt.Sprint(err2) || !reflect.DeepEqual(list, again) {
			t.Fatalf("the same bytes give %v and %v", err, err2)
		}
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.File != file || len(list) > 0 {
				t.Fatalf("error %#v with %d specializations, want an *Error of %s alone", err, len(list), file)
			}
			return
		}
		seen := map[string]bool{}
		for _, s := range list {
			name := strings.TrimPrefix(s.Tool, ToolPrefix)
			switch {
			case name == s.Tool, name == "", name == "llm_query", seen[strings.ToLower(s.Tool)]:
				t.Errorf("tool %q", s.Tool)
			case s.Patch == "", s.Session == "", s.Skill.Name != "k", s.Skill.Body == "", s.ContextWindow < 0:
				t.Errorf("accepted %+v", s)
			}
			seen[strings.ToLower(s.Tool)] = true
		}
	})
}
