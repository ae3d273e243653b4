package tools

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"jp/tools/fs"
	"jp/tools/proc"
)

// The tools of the sub-agent guide, as people copy them, with a jp that shows how it was called.
func TestShellGuide(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	defs, _, err := DecodeFiles("../scripts", filesOf(t, "../scripts"))
	if err != nil {
		t.Fatal(err)
	}
	if len(defs) != 4 {
		t.Fatalf("DecodeFiles found %d definitions", len(defs))
	}
	c := newCommands(t, nil)
	bin := t.TempDir()
	const jp = "#!/bin/sh\ncase \"$1 $2\" in 'conversation fork') echo jp-c9;; esac\nprintf '<%s>' \"$@\" >>\"$JP_CALLS\"\necho >>\"$JP_CALLS\"\n[ \"$1\" = query ] && echo answer\nexit 0\n"
	calls := filepath.Join(bin, "calls")
	if err := os.WriteFile(filepath.Join(bin, "jp"), []byte(strings.ReplaceAll(jp, "$JP_CALLS", calls)), 0o700); err != nil {
		t.Fatal(err)
	}
	line := func(context.Context, Definition, Call) (*Line, error) {
		ours, theirs, err := proc.Pair()
		if err != nil {
			return nil, err
		}
		return &Line{Socket: theirs, Dir: bin, Close: func() { ours.Close(); theirs.Close() }}, nil
	}
	const evil = `"; touch pwned; $(touch pwned) 'x' *`
	for _, tt := range []struct {
		tool  string
		args  map[string]any
		want  Result
		calls string
	}{
		{"jp_query", map[string]any{"config": "agent/researcher", "query": evil, "overrides": []string{"assistant.model=a b"}},
			text("<response conversation_id=\"jp-c9\" status=\"ok\">\nanswer\n</response>\n"),
			"<conversation><fork><jp-c7><--last=0><--cfg=NONE><--cfg=agent/researcher><--cfg><assistant.model=a b><--hidden>\n" +
				"<query><--non-interactive><--id=jp-c9><--no-activate><--root-id=jp-c7><--cfg><assistant.model=a b><--><" + evil + ">\n"},
		{"jp_query", map[string]any{"config": "agent/researcher", "query": "--id=x", "id": evil},
			text("<response conversation_id=\"" + evil + "\" status=\"ok\">\nanswer\n</response>\n"),
			"<query><--non-interactive><--id=" + evil + "><--no-activate><--root-id=jp-c7><--><--id=x>\n"},
		{"jp_query", map[string]any{"config": "agent/researcher", "query": "q", "overrides": []string{"assistant.model=a", evil}},
			failed("exit status 1\nstdout:\nError: only assistant.model overrides are allowed, got: " + evil + "\n"), ""},
		{"jp_conversation_list", map[string]any{}, text(""), "<conversation><ls><--root=jp-c7><--hidden><--format=json>\n"},
		{"jp_conversation_print", map[string]any{"id": evil}, text(""), "<conversation><print><" + evil + "><--root-id=jp-c7>\n"},
		{"jp_conversation_print", map[string]any{"id": "jp-c8", "last": 2}, text(""), "<conversation><print><jp-c8><--root-id=jp-c7><--last=2>\n"},
		{"jp_conversation_print", map[string]any{"id": "--all"}, refusal(`argument "id" must not start with '-': "--all" would be an option of jp, not a value`), ""},
		{"jp_conversation_grep", map[string]any{"pattern": "-v " + evil}, text(""), "<conversation><grep><--root=jp-c7><--hidden><-i><--><-v " + evil + ">\n"},
		{"jp_conversation_grep", map[string]any{"pattern": "p", "id": evil}, text(""), "<conversation><grep><--id=" + evil + "><--root-id=jp-c7><-i><--><p>\n"},
	} {
		def := defs[tt.tool]
		def.Access.FS = []fs.Rule{{Path: bin, Mode: fs.ReadWrite}} // jp writes there that it was called
		env := CommandEnv{Host: c.host, Dir: c.dir, Environ: c.env, Context: map[string]any{"conversation_id": "jp-c7"}, Main: true, Program: filepath.Join(bin, "jp"), JP: line}
		tool, err := Command(def, env)
		if err != nil {
			t.Fatal(err)
		}
		args, err := json.Marshal(tt.args)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(calls, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		got := runAll(t, Executor{Set: setOf(t, tool)}, t.Context(), Call{ID: "1", Name: tt.tool, Arguments: args})["1"]
		if got != tt.want {
			t.Errorf("%s %s = %q, %v\nwant %q", tt.tool, args, got.Text, got.IsError, tt.want.Text)
		}
		if b, err := os.ReadFile(calls); err != nil || string(b) != tt.calls {
			t.Errorf("%s %s called\n%s%v\nwant\n%s", tt.tool, args, b, err, tt.calls)
		}
	}
	if entries, err := os.ReadDir(c.dir); err != nil || len(entries) != 0 {
		t.Errorf("in the workspace: %v %v", entries, err)
	}
}

// What a shell text says besides values goes on as it would in a script.
func TestShellCommand(t *testing.T) {
	for _, tt := range []struct {
		name, src, args string
		want            Result
	}{
		{"bash", `command = { script = "echo ${BASH_VERSION:+bash}; shopt -q login_shell || echo $0" }`, ``, text("bash\nbash\n")},
		{"sh", `command = { script = "echo $0; false; echo $?", interpreter = "sh" }`, ``, text("sh\n1\n")},
		{"shebang", `command = { script = "#!/bin/sh\necho $0" }`, ``, text("sh\n")},
		{"line", `command = { script = "\n\nno-such-program x" }`, ``, failed("exit status 127\nstderr:\nbash: line 3: no-such-program: command not found")},
		{"stdin", "stdin = \"json\"\ncommand = { script = \"cat; cat <<< {{tool.name}}\" }", ``,
			text(`{"context":{"action":"run","conversation_id":"jp-c7","workspace":"@"},"tool":{"arguments":{},"name":"t","options":{}}}` + "\nt\n")},
		{"list", `command = { script = "echo {{tool.options.l}}" }` + "\noptions.l = [1, \"a b\"]", ``, text("[1,\"a b\"]\n")},
		{"omitted", `command = { script = "echo {{tool.arguments.x}}" }` + "\nparameters.x.type = \"string\"", ``,
			refusal("line 1, column 6: tool.arguments.x was not given; ask for it with {{#if tool.arguments.x}}")},
		{"nothing of ours", `command = { script = "env | grep ^JP_; env | grep -c ^BASH" }`, ``, failed("exit status 1\nstdout:\nJP_CALL_FD=none\n0\n")},
	} {
		if _, err := exec.LookPath("bash"); err != nil {
			t.Skip("bash is not installed")
		}
		c := newCommands(t, nil)
		want := tt.want
		want.Text = strings.ReplaceAll(want.Text, "@", c.dir)
		if got := c.run(t.Context(), tt.src, tt.args); got != want {
			t.Errorf("%s = %q, %v\nwant %q", tt.name, got.Text, got.IsError, want.Text)
		}
	}
}

// A definition names its script with what is wrong in it.
func TestShellDefinitions(t *testing.T) {
	const head = "name = \"a\"\nsource = \"local\"\n"
	for _, tt := range []struct{ toml, script, want string }{
		{head + `command = { script_file = "x.sh" }`, "ls\n", ""},
		{head + "[command]\nscript = \"ls\"\ninterpreter = \"sh\"", "", ""},
		{head + `command = { script_file = "x.sh" }`, "ls\neval {{tool.name}}", "a.toml:3: tool a: command.script_file: x.sh: line 2, column 6: {{tool.name}} is an argument of eval: of the commands of the shell itself only echo, printf, test and [ take values"},
		{head + `command = { script_file = "x.sh" }`, "ls {{tool.arguments.y}}", "a.toml:3: tool a: command.script_file: x.sh: line 1, column 4: {{tool.arguments.y}}: there is no tool.arguments.y"},
		{head + "[command]\ninterpreter = \"sh\"\nscript = \"ls <<< a\"", "", "a.toml:5: tool a: command.script: line 1, column 4: sh has no herestrings"},
		{head + `command = { script_file = "y.sh" }`, "ls", `a.toml:3: tool a: command.script_file: "y.sh": file does not exist`},
		{head + `command = { script_file = "../x.sh" }`, "ls", `a.toml:3: tool a: command.script_file: "../x.sh": want the name of a file in the folder of the definition`},
		{head + `command = { script_file = "" }`, "ls", `a.toml:3: tool a: command.script_file: "": want the name of a file in the folder of the definition`},
		{head + `command = { script_file = "x.sh", script = "ls" }`, "ls", `a.toml:3: tool a: command.script_file: there is a script already`},
		{head + `command = { script = "ls", args = ["a"] }`, "ls", `a.toml:3: tool a: command.args: a shell text has no args`},
		{head + `command = { script = "ls", interpreter = "zsh" }`, "ls", `a.toml:3: tool a: command.interpreter: want bash or sh, not "zsh"`},
		{head + `command = { interpreter = "sh" }`, "ls", `a.toml:3: tool a: command: script is missing`},
		{head + `command = { script = 1 }`, "ls", `a.toml:3: tool a: command.script: want a string, not an integer`},
		{head + "env = [\"GOFLAGS\"]\ncommand = { script = \"GOFLAGS={{tool.name}}\" }", "", `a.toml:4: tool a: command.script: line 1, column 9: {{tool.name}} is assigned to GOFLAGS, which means something to the shell or to programs`},
	} {
		_, _, err := DecodeFiles("D", map[string][]byte{"a.toml": []byte(tt.toml), "x.sh": []byte(tt.script)})
		got := ""
		if err != nil {
			got = strings.ReplaceAll(err.Error(), "D/", "")
		}
		if got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.toml, got, tt.want)
		}
	}
}
