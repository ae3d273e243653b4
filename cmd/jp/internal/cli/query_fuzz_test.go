package cli

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/wording"
	"jp/tools/proc"
)

func TestMain(m *testing.M) {
	proc.Guard(os.Args) // this program is its tools' guard as well
	m.Run()
}

// fuzzPlace is a folder with a home, a state folder and a workspace whose model is a script.
type fuzzPlace struct {
	top string
}

func newFuzzPlace(t *testing.T, config string) fuzzPlace {
	t.Helper()
	p := fuzzPlace{top: t.TempDir()}
	for name, text := range map[string]string{
		"ws/.jp/config.toml": "[assistant]\nmodel = \"script/m.toml\"\nrequest.max_retries = 0\n" + config,
		"ws/m.toml":          "[[rule]]\ntext = \"Said.\"\n",
		"ws/other.toml":      "[[rule]]\ntext = \"'Tis said.\"\n",
		"ws/note.txt":        "a note\n",
		"ws/schema.json":     `{"type":"string"}`,
		"home/empty":         "",
		"state/empty":        "",
		"tmp/empty":          "",
	} {
		path := filepath.Join(p.top, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// environ is the environment of a run; env chooses what is said differently in it.
func (p fuzzPlace) environ(env uint8) []string {
	at := func(name string) string { return filepath.Join(p.top, name) }
	out := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + at("home"), "XDG_CONFIG_HOME=" + at("home/config"), "XDG_STATE_HOME=" + at("state"),
		"XDG_RUNTIME_DIR=" + at("tmp"), "TMPDIR=" + at("tmp"), "JP_SESSION=fuzz", "JP_NONINTERACTIVE=1", "OLLAMA_HOST=127.0.0.1:1",
		"JP_TRUST_WORKSPACE=1", "JP_EDITOR=false",
	}
	return append(out, []string{
		"JP_CFG=", "JP_EDITOR=touch " + at("ws/edited"), "JP_SESSION=", "XDG_STATE_HOME=state", "JP_STORE=" + at("ws/store"),
		"JP_TRUST_WORKSPACE=", "JP_CFG_CONVERSATION_MAX_TURNS=x", "XDG_RUNTIME_DIR=" + at("gone"),
	}[env%8])
}

// run runs one command line in this process.
func (p fuzzPlace) run(environ []string, stdin string, args []string) (status exit.Status, stdout, stderr string) {
	var out, errs bytes.Buffer
	env := console.Env{
		Args: append([]string{"jp"}, args...), Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs,
		Dir: filepath.Join(p.top, "ws"), Environ: environ,
	}
	return exit.Status(Main(context.Background(), env)), out.String(), errs.String()
}

// files are the names and contents of everything that is there.
func (p fuzzPlace) files(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(p.top, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir():
			out = append(out, path+"/")
		case !e.Type().IsRegular():
			out = append(out, path+" "+e.Type().String())
		default:
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			out = append(out, path+"="+string(b))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// queryFlags are the flags that may stand behind jp query, those that name a place to write to left
// out.
func queryFlags() []*command.Option {
	a := newApp(console.Env{Stdin: strings.NewReader(""), Stdout: new(bytes.Buffer), Stderr: new(bytes.Buffer)})
	var q *cli.Command
	for _, c := range a.tree.Root.Commands {
		if c.Name == "query" {
			q = c
		}
	}
	return slices.DeleteFunc(append(command.OptionsOf(q), command.Options(a.tree.Root.Flags)...), func(o *command.Option) bool {
		return o.Name == "log-file" || o.Name == "workspace" || o.Name == "timeout"
	})
}

// fuzzValues are what flags are given beside their own choices and the fuzzer's text.
func fuzzValues() []string {
	return []string{
		"", "0", "1", "5", "9", "-1", "1.5", "unlimited", "1h", "-1h", "new", "recent", ".", "newest", "previous",
		"jp-c17000000001", "jp-c1", "NONE", "builtin:agent/researcher", "agent/none", "script/m.toml", "script/other.toml", "script/gone.toml",
		"ollama/x", "conversation.max_turns:=2", "conversation.max_turns:=x", "assistant.model=script/other.toml", "no.such.key=1", "a:=[", "~", "@",
		"note.txt", "gone.txt", "@schema.json", "@note.txt", `{"type":"object"}`, "{", "cmd:touch started", "jp:recent", "jp:", "https://127.0.0.1:1/",
		"fs_read_file", "no_such_tool", "fs_read_file,x", "Bash(x:*)", "a\x00b", "\xff", "--", "-x", strings.Repeat("9", 30),
	}
}

// chosen is one flag of a command line: how it is spelled there, and the way that we would.
type chosen struct {
	kind  string // flags of one kind keep their order
	typed []string
	plain string
	bare  *command.Option // given without its value, which may be left out; nil = none
}

// choose makes a flag of three numbers.
func choose(flags []*command.Option, values []string, text string, flag, value, form uint8) chosen {
	o := flags[int(flag)%len(flags)]
	spell := o.Spellings()
	name := spell[int(form>>2)%len(spell)]
	kind := o.Name
	for _, kinds := range [][]string{
		{"cfg", "no-cfg"}, {"tool", "no-tool", "all-tools", "no-tools", "disallowedTools"}, {"sub-calls", "no-sub-calls"}, {"show-reasoning", "hide-reasoning"},
	} {
		if slices.Contains(kinds, o.Name) {
			kind = kinds[0]
		}
	}
	v := text
	if all := append(slices.Clone(o.Choices), values...); int(value) < len(all) {
		v = all[value]
	}
	switch {
	case o.Arg == "", o.Maybe && form&1 == 1:
		return chosen{kind, []string{name}, "--" + o.Name, wording.Either(o.Maybe, o, nil)}
	case o.Maybe, form&2 == 0, strings.HasPrefix(v, "-"):
		return chosen{kind, []string{name + "=" + v}, "--" + o.Name + "=" + v, nil}
	}
	return chosen{kind, []string{name, v}, "--" + o.Name + "=" + v, nil}
}

// FuzzQuery: whatever flags, variables, config and stdin `jp query` is given, it ends with one of
// its statuses; with that of a usage error nothing was written or started; and where flags stand
// and how they are spelled makes no difference.
func FuzzQuery(f *testing.F) {
	flags, pool := queryFlags(), fuzzValues()
	if len(flags) < 40 {
		f.Fatalf("jp query has %d flags", len(flags))
	}
	all := map[exit.Status]bool{exit.OK: true, exit.Failed: true, exit.Usage: true, exit.Closed: true}
	for _, s := range []exit.Status{exit.NotFound, exit.Scope, exit.Busy, exit.Refused, exit.Limit, exit.Provider, exit.Deadline} {
		all[s] = true
	}
	for i := range flags {
		f.Add([]byte{byte(i), byte(i * 7), 0, byte(i + 1), byte(i), 6}, uint8(i/8), "hello", "", "")
	}
	f.Fuzz(func(t *testing.T, picks []byte, env uint8, text, config, stdin string) {
		if len(picks) > 18 || len(text)+len(config)+len(stdin) > 4096 {
			return
		}
		for _, bad := range []string{"/", "\\", "cmd", "command", "url", "editor", "https:"} { // what could reach past the place
			if strings.Contains(strings.ToLower(text), bad) || strings.Contains(strings.ToLower(config), bad) {
				return
			}
		}
		var typed []chosen
		kinds := []string{}
		timely := true
		for i := 0; i+2 < len(picks); i += 3 {
			c := choose(flags, pool, text, picks[i], picks[i+1], picks[i+2])
			typed = append(typed, c)
			if !slices.Contains(kinds, c.kind) {
				kinds = append(kinds, c.kind)
			}
			timely = timely && c.kind != "tmp"
		}
		var words []string
		if text != "" && !strings.HasPrefix(text, "-") {
			words = strings.SplitN(text, " ", 2)
		}

		line := []string{"query"}
		for i, c := range typed {
			line = append(line, c.typed...)
			if i < len(words) {
				if c.bare != nil && c.bare.Fits(words[i]) {
					return // there the place does count, and it is an error
				}
				line = append(line, words[i])
			}
		}
		line = append(line, words[min(len(typed), len(words)):]...)
		again := append([]string{"query"}, words...)
		slices.Reverse(kinds)
		for _, kind := range kinds {
			for _, c := range typed {
				if c.kind == kind {
					again = append(again, c.plain)
				}
			}
		}

		p := newFuzzPlace(t, config)
		before := p.files(t)
		status, out, errs := p.run(p.environ(env), stdin, line)
		if !all[status] {
			t.Fatalf("jp %q: status %d: %s", line, status, errs)
		}
		if status != exit.OK && errs == "" {
			t.Errorf("jp %q: status %d without a word", line, status)
		}
		if status == exit.Usage {
			if out != "" {
				t.Errorf("jp %q: a usage error, and on stdout %q", line, out)
			}
			if after := p.files(t); !slices.Equal(before, after) {
				t.Errorf("jp %q: a usage error (%s), and these were written:\n%s", line, errs, strings.Join(added(before, after), "\n"))
			}
		}
		second := newFuzzPlace(t, config)
		status2, out2, errs2 := second.run(second.environ(env), stdin, again)
		if status2 != status && timely {
			t.Fatalf("jp %q: status %d: %s\njp %q: status %d: %s", line, status, errs, again, status2, errs2)
		}
		if status == exit.OK && timely && !strings.HasPrefix(out, "{") && out != out2 { // JSON has ids and times
			t.Errorf("jp %q: %q\njp %q: %q", line, out, again, out2)
		}
	})
}

// added is what only one of the lists holds, without contents that nobody wants to read.
func added(before, after []string) []string {
	var out []string
	for _, s := range append(slices.Clone(before), after...) {
		if !slices.Contains(before, s) || !slices.Contains(after, s) {
			out = append(out, s[:min(len(s), 300)])
		}
	}
	return out
}
