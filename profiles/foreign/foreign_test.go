package foreign

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"jp/profiles/tomldoc"
)

func TestFormatOf(t *testing.T) {
	for path, want := range map[string]string{
		"/w/.claude/agents/a.md": "claude", "/w/.claude/agents/team/a.md": "claude", "/w/.agents/agents/a.md": "claude",
		"/w/.codex/agents/a.toml": "codex", "/w/a.toml": "codex", "/w/.gemini/agents/a.md": "gemini",
		"/w/.opencode/agent/a.md": "opencode", "/h/.config/opencode/agents/a.md": "opencode",
		"/w/agents/a.md": "", "/w/.claude/a.md": "", "a.md": "", "/": "",
	} {
		if got := FormatOf(path); got != want {
			t.Errorf("FormatOf(%s) = %q, want %q", path, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	md := func(head string) string { return "---\n" + head + "\n---\nDo it.\n" }
	show := func(f Agent) string {
		names, unknown := f.MapTools()
		tools := "all"
		if f.Listed {
			tools = fmt.Sprint(names, unknown)
		}
		return fmt.Sprintf("%s|%s|%s|%s|%s", f.ProfileName(), f.Model, tools, strings.Join(f.Left, " "), f.Prompt)
	}
	for _, test := range []struct{ name, format, in, want string }{
		{"list as text", "claude", md("name: a\ndescription: d\ntools: Read, Grep\nmodel: sonnet"), "a|sonnet|[fs_grep_files fs_read_file] []||Do it."},
		{"list", "claude", md("name: a\ntools: [Edit, MultiEdit, Bash]"), "a||[fs_modify_file] [Bash]||Do it."},
		{"commas in parentheses", "claude", md(`tools: "Bash(git add, git diff), LS"`), "file||[fs_list_files] [Bash(git add, git diff)]||Do it."},
		{"no list", "claude", md("name: a\nmodel: inherit"), "a||all||Do it."},
		{"an empty list", "claude", md("name: a\ntools: []"), "a||[] []||Do it."},
		{"tools without a value", "claude", md("name: a\ntools:"), "a||all||Do it."},
		{"everything", "gemini", md("name: a\ntools: ['*']"), "a||all||Do it."},
		{"all but some", "claude", md("name: a\ndisallowedTools: Bash"), "a||all||Do it."},
		{"some but some", "claude", md("name: a\ntools: Read, Write\ndisallowedTools: Write"), "a||[fs_read_file] []||Do it."},
		{"mark and line ends", "claude", "\ufeff---\r\nname: a\r\n---\r\nDo\r\nit.\r\n", "a||all||Do\nit."},
		{"no YAML", "claude", md("name: a\ndescription: Use it: often. Examples: <b>\ntools: Read"), "a||[fs_read_file] []||Do it."},
		{"a text over lines", "claude", md("name: a\ndescription: Use it. Examples:\n\n<example>\nuser: \"tools: Bash\"\nassistant: \"name it\"\n</example>\ncolor: red\ntools: Read, Write\nmodel: sonnet"),
			"a|sonnet|[fs_create_file fs_read_file] []|color|Do it."},
		{"a text over lines, a list of lines", "claude", md("name: \"a\"\ndescription: Use it: now\n  and then\ntools:\n  - Read\n  - 'Grep'"), "a||[fs_grep_files fs_read_file] []||Do it."},
		{"a text with a line that is a key", "claude", md("name: a\ndescription: Use it: now\ntools: Read\nthen\ntools: Bash"), "frontmatter: line 3: mapping values are not allowed in this context"},
		{"all tools", "claude", md("name: a\ntools: All tools"), "a||all||Do it."},
		{"skills", "claude", md("name: a\ntools: Read, Skill\nskills: [x]"), "a||[fs_read_file skill] []||Do it."},
		{"skills of an agent with all tools", "claude", md("name: a\nskills: x"), "a||all|skills|Do it."},
		{"no YAML, no list", "claude", md("name: a\ndescription: Use it: often\ntools:"), "a||all||Do it."},
		{"up and out", "claude", md("name: ../../etc/passwd"), "etc-passwd||all||Do it."},
		{"letters of all kinds", "claude", md("name: Größe  Prüfer_2"), "gr-e-pr-fer_2||all||Do it."},
		{"no letters", "claude", md("name: ..."), "||all||Do it."},
		{"what is not known", "claude", md("name: a\nhooks: {x: [1]}\ncolor: red"), "a||all|color hooks|Do it."},
		{"no end of the body", "claude", "---\nname: a\n---", "holds no prompt"},
		{"no end", "claude", "---\nname: a\n", "the frontmatter has no end"},
		{"no frontmatter", "claude", "Do it.", "must begin with a frontmatter between lines of ---"},
		{"aliases", "claude", md("name: [&x a]\ndescription: *x"), "frontmatter: line 2: anchors and aliases are not read here"},
		{"a bomb", "claude", md("a:\n  - &a [x,x]\n  - &b [*a,*a]\n  - [*b,*b]"), "frontmatter: line 3: anchors and aliases are not read here"},
		{"twice", "claude", md("tools: Read\ntools: Bash"), `frontmatter: line 3: key "tools" is there twice or is no text`},
		{"deep", "claude", md("a:\n  " + strings.Repeat("[", 40) + strings.Repeat("]", 40)), "frontmatter: nested too deep"},
		{"a number for a name", "claude", md("name: 1"), "name: is no text"},
		{"tools as a number", "claude", md("tools: 1"), "tools: is no list of names"},
		{"a limit that is none", "gemini", md("max_turns: 0.5"), "max_turns: is no whole number from 1"},
		{"too warm", "gemini", md("temperature: 3"), "temperature: is no number from 0 to 2"},
		{"remote", "gemini", md("kind: remote"), "kind: a remote agent has nothing to import"},
		{"bytes", "claude", "---\n\xff\n---\nx", "not UTF-8 text"},
		{"gemini's names", "gemini", md("tools: [read_file, replace, google_web_search]"), "file||[fs_modify_file fs_read_file] [google_web_search]||Do it."},
		{"switches", "opencode", md("tools: {bash: false, read: true}"), "file||[fs_read_file] []||Do it."},
		{"switches that are off", "opencode", md("tools: {bash: false, read: false}"), "file||all||Do it."},
		{"switches on top of all", "opencode", md("tools: {'*': true, read: true}"), "file||all||Do it."},
		{"switches on top of none", "opencode", md("tools: {'*': false, read: true, bash: false}"), "file||[fs_read_file] []||Do it."},
		{"a switch in words", "opencode", md("tools: {read: allow}"), "tools: read: is neither true nor false"},
		{"the file's name", "opencode", md("name: other"), "file||all||Do it."},
		{"codex", "codex", "name = \"a b\"\ndeveloper_instructions = \"\"\"\nDo it.\"\"\"\nmodel = \"gpt-5\"\nsandbox_mode = \"x\"\n", "a-b|gpt-5|all|sandbox_mode|Do it."},
		{"codex without a prompt", "codex", "name = \"a\"\n", "holds no prompt"},
		{"a date", "codex", "x = 2026-01-01\n", "x: must not be a date: no setting takes one; write it in quotes"},
	} {
		f, err := Parse(test.format, "file", []byte(test.in))
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = show(f)
		}
		if got != test.want {
			t.Errorf("%s: %s\nwant %s", test.name, got, test.want)
		}
	}
}

// What a file forbids, by any name or in part, is not held, and a note says what goes with it.
func TestForbidden(t *testing.T) {
	for _, test := range []struct{ format, tools, held, notes string }{
		{"claude", "tools: Read, Edit, Skill\ndisallowedTools: Edit", "fs_read_file skill", ""},
		{"claude", "tools: Read, Edit\ndisallowedTools: Read(**/.env), Edit(secrets/**)", "",
			"the tool Read, because the file forbids Read(**/.env); the tool Edit, because the file forbids Edit(secrets/**)"},
		{"claude", "tools: Read, Grep, Glob, LS, Write\ndisallowedTools: [Read(.env)]", "fs_create_file",
			"the tool Read, because the file forbids Read(.env); the tool Grep, because the file forbids Read(.env); " +
				"the tool Glob, because the file forbids Read(.env); the tool LS, because the file forbids Read(.env)"},
		{"claude", "tools: Grep, Write\ndisallowedTools: Read, Edit(x)", "fs_grep_files", "the tool Write, because the file forbids Edit(x)"},
		{"claude", "tools: Edit, MultiEdit\ndisallowedTools: Edit", "", "the tool MultiEdit, because the file forbids Edit"},
		{"claude", "tools: Read, Write, Edit, Bash\ndisallowedTools: '*Edit, Bash(rm:*), WebFetch'", "fs_create_file fs_read_file", "the tool Edit, because the file forbids *Edit"},
		{"claude", "tools: Read\ndisallowedTools: '*'", "", "the tool Read, because the file forbids *"},
		{"opencode", "tools: {read: true, patch: true, edit: false}", "fs_read_file", "the tool patch, because the file forbids edit"},
		{"opencode", "tools: {'*': false, read: true, 'gh_*': false}", "fs_read_file", ""},
		{"opencode", "permission: {'*': deny, write: allow, grep: allow}", "fs_grep_files", "the tool write, because the file forbids *"},
		{"opencode", "permission: {read: allow, '*': deny}", "", "the tool read, because the file forbids *"},
		{"opencode", "permission: {'*': deny, edit: {'docs/*': allow, '*': deny}}", "", "the tool edit, because the file forbids *"},
		{"opencode", "tools: {read: true, edit: true, write: false}", "fs_read_file", "the tool edit, because the file forbids write"},
		{"opencode", "tools: {read: true, edit: true}\npermission: {'*': deny, read: allow}", "fs_read_file", "the tool edit, because the file forbids *"},
	} {
		f, err := Parse(test.format, "file", []byte("---\n"+test.tools+"\n---\nDo it.\n"))
		if err != nil {
			t.Fatal(err)
		}
		f.Notes = slices.DeleteFunc(f.Notes, func(n string) bool { return strings.HasPrefix(n, "tools that it does not name") })
		names, _ := f.MapTools()
		if held, notes := strings.Join(names, " "), strings.Join(f.Notes, "; "); held != test.held || notes != test.notes || !f.Listed {
			t.Errorf("%s: held %q, notes %q\nwant %q, %q", test.tools, held, notes, test.held, test.notes)
		}
	}
}

// The last rule of opencode that matches counts. A profile has no rule for a part of a tool.
func TestPermission(t *testing.T) {
	for _, test := range []struct{ head, held, ask string }{
		{"tools: {read: true, edit: true}\npermission: {edit: deny}", "fs_read_file", ""},
		{"tools: {read: true, write: true, patch: true}\npermission: {edit: deny, bash: ask}", "fs_read_file", ""},
		{"tools: {read: true, edit: true}\npermission: deny", "", ""},
		{"tools: {read: true, edit: true}\npermission: {'*': deny, edit: allow}", "fs_modify_file", ""},
		{"permission: {'*': deny, read: allow, grep: ask, webfetch: allow}", "fs_grep_files fs_read_file [webfetch]", "fs_grep_files"},
		{"permission: {'*': deny, glob: allow, edit: allow, bash: {'git *': allow}}", "fs_create_file fs_list_files fs_modify_file [bash]", ""},
		{"permission: {read: allow, '*': deny}", "", ""},
		{"permission: {'*': deny, read: {'*': allow, '*.env': deny}, grep: allow}", "fs_grep_files", ""},
		{"permission: {'*': deny, edit: {'*': deny, 'docs/*': allow}}", "", ""},
		{"permission: {'*': deny, read: {'*.env': deny, '*': allow}}", "fs_read_file", ""},
		{"permission: {'*': deny, edit: allow, write: deny}", "", ""},
		{"permission: {'*': deny, 'gre?': allow}", "fs_grep_files", ""},
		{"permission: {edit: deny}", "all but fs_create_file fs_modify_file", ""},
		{"tools: {write: false}", "all but fs_create_file fs_modify_file", ""},
		{"tools: {apply_patch: false}", "all but fs_create_file fs_modify_file", ""},
		{"tools: {edit: true, write: false, read: true}", "fs_read_file", ""},
		{"tools: {write: true, patch: false, read: true}", "fs_read_file", ""},
		{"tools: {read: true, '@scope/x*': false}", "fs_read_file", ""},
		{"permission: {'*': deny, 'g*': deny, grep: allow}", "fs_grep_files", ""},
		{"permission: {'**': deny}", "all but fs_create_file fs_grep_files fs_list_files fs_modify_file fs_read_file skill", ""},
		{"permission: {edit: deny}\npermissions: [{action: edit, resource: '*', effect: allow}]", "all but fs_create_file fs_modify_file", ""},
		{"permission: {'*': deny, '[e]dit': allow, 'git *': allow, read: allow}", "fs_read_file", ""},
		{"permission: {'*': ask, glob: allow, skill: deny}", "all but skill", "fs_create_file fs_grep_files fs_list_files fs_modify_file fs_read_file"},
		{"permissions:\n- {action: '*', resource: '*', effect: deny}\n- {action: read, resource: '*', effect: allow}\n- {action: shell, resource: '*', effect: allow}", "fs_read_file [shell]", ""},
		{"permissions:\n- {action: edit, resource: 'secrets/*', effect: deny}", "all but fs_create_file fs_modify_file", ""},
		{"permissions: {edit: {'**/*.env*': deny}, bash: {'sudo *': deny}}\ntools: {read: true, edit: true}", "fs_read_file", ""},
		{"permissions: {'*': deny, read: allow}", "fs_read_file", ""},
		{"permission: [{action: edit, resource: '*', effect: deny}]", "all but fs_create_file fs_modify_file", ""},
		{"permission: null", "all but ", ""},
		{"permissions: {bash: true}", "permissions: \"bash\": must be allow, ask or deny", ""},
		{"permissions: true", "permissions: must be allow, ask or deny, have a key for each tool, or be a list of rules", ""},
		{"permission: {edit: no}", "permission: \"edit\": must be allow, ask or deny", ""},
		{"permission: [edit]", "permission: each must have an action, a resource and an effect", ""},
		{"permission: {'[e]dit': deny}", "permission: \"[e]dit\" is no name of a tool", ""},
		{"permissions: [{action: edit, effect: deny}]", "permissions: each must have an action, a resource and an effect", ""},
		{"description: Use it: often\npermission:\n  edit: deny # never", "all but fs_create_file fs_modify_file", ""},
		{"description: Use it: often\npermission:\n  '*': deny\n  \"read\": allow\nmode: primary", "fs_read_file", ""},
		{"description: Use it: often\npermissions:\n  - {action: edit, resource: '*', effect: deny}", "all but fs_create_file fs_modify_file", ""},
		{"description: Use it: often\ntools:\n  read: true\n  edit: true\n  write: false", "fs_read_file", ""},
		{"description: Use it: often\npermission:\n  edit: deny\n bash: ask", "permission: must be allow, ask or deny, have a key for each tool, or be a list of rules; " +
			"its frontmatter is not YAML (line 2: mapping values are not allowed in this context); it was read line by line", ""},
	} {
		f, err := Parse("opencode", "file", []byte("---\n"+test.head+"\n---\nDo it.\n"))
		names, unknown := f.MapTools()
		var ask, forbidden []string
		for _, name := range []string{"fs_create_file", "fs_grep_files", "fs_list_files", "fs_modify_file", "fs_read_file", "skill"} {
			if f.Asks(name) {
				ask = append(ask, name)
			}
			if f.Forbids(name) != "" {
				forbidden = append(forbidden, name)
			}
		}
		held := strings.Join(names, " ")
		switch {
		case err != nil:
			held = err.Error()
		case !f.Listed:
			held = "all but " + strings.Join(forbidden, " ")
		case len(unknown) > 0:
			held += " " + fmt.Sprint(unknown)
		}
		if got := strings.Join(ask, " "); held != test.held || got != test.ask {
			t.Errorf("%s: %q, asks for %q\nwant %q, %q", test.head, held, got, test.held, test.ask)
		}
	}
}

// A forbidding line that is not a list of names forbids nothing that jp could find. The file is
// refused, also where its frontmatter is not YAML and is read line by line.
func TestForbiddenUnread(t *testing.T) {
	parse := func(format, lines string) (Agent, error) {
		return Parse(format, "file", []byte("---\ndescription: Use it: often\n"+lines+"\n---\nDo it.\n"))
	}
	for _, lines := range []string{
		`disallowedTools: "Write", "Edit"`,
		`"disallowedTools": Write`,
		"disallowedTools : Write",
		"  disallowedTools: Write",
		"disallowedTools: Write Edit",
		"disallowedTools: Write(a) Edit(b)",
	} {
		f, err := parse("claude", "tools: Write, Edit\n"+lines)
		if err == nil || !strings.Contains(err.Error(), "line 2: mapping values are not allowed") {
			t.Errorf("%s: %v; the profile has %v", lines, err, f.Tools)
		}
	}
	for _, test := range []struct{ format, lines, want string }{
		{"claude", "disallowedTools: Write, Edit", "[]"},
		{"claude", "disallowedTools: Write, Bash(git commit:*, echo $(x))", "[Edit]"},
		{"claude", "disallowedTools:\n  - Write\n  - mcp__github__*\nproactive: true", "[Edit]"},
		{"claude", "disallowedTools: Write, Edit\nproactive: true", "[]"},
		{"claude", "disallowedTools: Write, Edit\n# no changes", "[]"},
		{"claude", `disallowedTools: ["Write", "Edit"]`, "[]"},
		{"claude", "disallowedTools: Write, Edit # no changes", "[]"},
		{"claude", "disallowedTools: [Write, Edit] # no changes", "[]"},
		{"claude", "disallowedTools:\n  - Write\n  # nor\n  - Edit", "[]"},
		{"claude", "disallowedTools:\n  - Write # x\n  - Edit", "[]"},
		{"claude", "metadata:\n  permissions: read", "[Write Edit]"},
		{"gemini", "metadata:\n  \"permission\": read", "[Write Edit]"},
	} {
		f, err := parse(test.format, "tools: Write, Edit\n"+test.lines)
		if got := fmt.Sprint(f.Tools); err != nil || got != test.want {
			t.Errorf("%s: %s, %v, want %s", test.lines, got, err, test.want)
		}
	}
	_, err := parse("opencode", "metadata:\n  permissions: read")
	if want := "frontmatter: line 2: mapping values are not allowed in this context; line 4 may forbid tools"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// A profile says what was read, whatever that is: no text of a file becomes anything but the
// prompt.
func FuzzForeign(f *testing.F) {
	for _, format := range Formats() {
		f.Add(format, "---\nname: a\ntools: Read, Grep\nmodel: m\n---\nDo it.\n")
		f.Add(format, "---\nname: a: b\ndescription: \"\"\"\n---\n\"\"\"\nreset = 1\n\"\"\\\x1b\u202e\n")
		f.Add(format, "name = \"x\"\ndeveloper_instructions = \"a\\u0000\\\"\\\"\\\"\"\n")
		f.Add(format, "---\ndescription: \"a\\n[conversation.tools.x]\"\ntemperature: 1e-9\nmax_turns: 3\nsteps: 1e3\n---\n\\u0041\\\n")
		f.Add(format, "---\na: &a [b]\nb: *a\n---\nx")
		f.Add(format, "---\ntools: {'*': false, read: true}\n---\nx\r\ny")
	}
	f.Fuzz(func(t *testing.T, format, text string) {
		a, err := Parse(format, "file", []byte(text))
		if err != nil {
			return
		}
		name := a.ProfileName()
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" || len(name) > 64 {
			t.Fatalf("name %q", name)
		}
		data := a.Profile(Imported{Source: a.Name, Model: "a/b", Tools: []Held{{"fs_read_file", "builtin", true}}, Notes: []string{a.Description, a.Name}})
		tree, _, err := tomldoc.Tree(data)
		if err != nil {
			t.Fatalf("%v in the profile of %q:\n%s", err, text, data)
		}
		want := map[string]any{
			"loader":       map[string]any{"reset": "none"},
			"conversation": map[string]any{"tools": map[string]any{"fs_read_file": map[string]any{"source": "builtin", "run": "unattended"}}},
		}
		if a.MaxTurns > 0 {
			want["conversation"].(map[string]any)["max_turns"] = int64(a.MaxTurns)
		}
		assistant := tree["assistant"].(map[string]any)
		delete(tree, "assistant")
		if !reflect.DeepEqual(tree, want) {
			t.Fatalf("%v, want %v", tree, want)
		}
		sections := assistant["system_prompt_sections"].([]any)
		if got := sections[0].(map[string]any)["content"]; len(sections) != 1 || got != a.Prompt+"\n" {
			t.Fatalf("prompt %q, want %q", got, a.Prompt+"\n")
		}
	})
}
