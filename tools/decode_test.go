package tools

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"jp/profiles/tomldoc"
	"jp/tools/fs"
)

// table decodes TOML as a config file does.
func table(t testing.TB, src string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := toml.Unmarshal([]byte(src), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

const wordCount = `
name = "word_count"
source = "local"
description = "Count words in a file."
command = { program = "wc", args = ["-w", "--", "{{tool.arguments.path}}"] }
run = "unattended"
result = "ask"
detached = { run = "auto", tool = "defaults" }
timeout = "90s"
size_threshold = "100KB"
parallel = false
env = ["GOFLAGS"]
access.fs = [{ path = ".", mode = "ro" }, { path = "out", mode = "rw" }, { path = "/tmp" }]
network = "any"
sandbox = "off"
output = "json"
stdin = "json"
options.deep.list = [1, 2.5, true, "x"]
[parameters.path]
type = "string"
required = true
description = "File to count."
[parameters.lines]
type = ["integer", "null"]
default = 3
minimum = 1
allow_dash = true
`

func TestDecode(t *testing.T) {
	def, err := Decode("word_count", table(t, wordCount), nil)
	if err != nil {
		t.Fatal(err)
	}
	def.Command.args, def.set = nil, nil
	want := Definition{
		Name:        "word_count",
		Source:      SourceLocal,
		Description: "Count words in a file.",
		Schema: json.RawMessage(`{"additionalProperties":false,"properties":{` +
			`"lines":{"default":3,"minimum":1,"type":["integer","null"]},` +
			`"path":{"description":"File to count.","type":"string"}},"required":["path"],"type":"object"}`),
		Command:       CommandLine{Program: "wc", Args: []string{"-w", "--", "{{tool.arguments.path}}"}},
		Run:           RunUnattended,
		Result:        ResultAsk,
		Detached:      Detached{Run: DetachedAuto, Deliver: DetachedDeny, Tool: DetachedDefaults},
		Timeout:       90 * time.Second,
		SizeThreshold: 100_000,
		Env:           []string{"GOFLAGS"},
		Access:        Access{FS: []fs.Rule{{Path: ".", Mode: fs.ReadOnly}, {Path: "out", Mode: fs.ReadWrite}, {Path: "/tmp", Mode: fs.ReadOnly}}},
		Network:       NetworkAny,
		Sandbox:       SandboxOff,
		Stdin:         StdinJSON,
		Output:        OutputJSON,
		Options:       map[string]any{"deep": map[string]any{"list": []any{json.Number("1"), json.Number("2.5"), true, "x"}}},
		dash:          map[string]bool{"lines": true},
	}
	if !reflect.DeepEqual(def, want) {
		t.Errorf("Decode = %+v\nwant %+v", def, want)
	}
}

// A definition is the same whether a TOML or a JSON decoder read it: stored configs are JSON.
func TestDecodeFromJSON(t *testing.T) {
	want, err := Decode("word_count", table(t, wordCount), nil)
	if err != nil {
		t.Fatal(err)
	}
	src, err := json.Marshal(table(t, wordCount))
	if err != nil {
		t.Fatal(err)
	}
	var stored map[string]any
	if err := json.Unmarshal(src, &stored); err != nil {
		t.Fatal(err)
	}
	got, err := Decode("word_count", stored, nil)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("from JSON = %+v, %v\nwant %+v", got, err, want)
	}
}

func TestDecodeFallbacks(t *testing.T) {
	def, err := Decode("a", table(t, `source = "local"
command = "ls"`), nil)
	if err != nil {
		t.Fatal(err)
	}
	def.Command.args, def.set = nil, nil
	want := Definition{
		Name: "a", Source: SourceLocal, Command: CommandLine{Text: "ls", Program: "ls"},
		Schema: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
		Run:    RunAsk, Result: ResultUnattended, Detached: Detached{DetachedDeny, DetachedDeny, DetachedDeny},
		Timeout: time.Minute, SizeThreshold: 256_000, Parallel: true,
		Network: NetworkNone, Sandbox: SandboxAuto, Stdin: StdinNone, Output: OutputText,
	}
	if !reflect.DeepEqual(def, want) {
		t.Errorf("Decode = %+v\nwant %+v", def, want)
	}
}

func TestDecodeErrors(t *testing.T) {
	// The line is that of the key in the source below, which begins with two good lines.
	const good = "source = \"local\"\ncommand = \"ls\"\n"
	for _, tt := range []struct{ src, want, hint string }{
		{`runn = "ask"`, `t.toml:3: tool a: runn: unknown key`, `did you mean "run"?`},
		{`zzzzz = "ask"`, `t.toml:3: tool a: zzzzz: unknown key`, ``},
		{`questions.x = 1`, `t.toml:3: tool a: questions: unknown key`, ``},
		{`run = "asks"`, `t.toml:3: tool a: run: want ask, unattended or deny, not "asks"`, `did you mean "ask"?`},
		{`run = true`, `t.toml:3: tool a: run: want ask, unattended or deny, not a boolean`, ``},
		{`result = "deny"`, `t.toml:3: tool a: result: want ask or unattended, not "deny"`, ``},
		{`detached = 1`, `t.toml:3: tool a: detached: want deny, auto, defaults or a table of run, deliver and tool, not an integer`, ``},
		{`detached = "yes"`, `t.toml:3: tool a: detached: want deny, auto or defaults, not "yes"`, ``},
		{`detached = { run = "yes" }`, `t.toml:3: tool a: detached.run: want deny, auto or defaults, not "yes"`, ``},
		{`detached = { rn = "auto" }`, `t.toml:3: tool a: detached.rn: unknown key`, `did you mean "run"?`},
		{`timeout = 60`, `t.toml:3: tool a: timeout: want a duration such as "60s", not an integer`, ``},
		{`timeout = "60"`, `t.toml:3: tool a: timeout: want a duration such as "60s", not "60"`, ``},
		{`timeout = "-1s"`, `t.toml:3: tool a: timeout: want a duration above 0 and at most 24h, not "-1s"`, ``},
		{`timeout = "2d"`, `t.toml:3: tool a: timeout: want a duration above 0 and at most 24h, not "2d"`, ``},
		{`timeout = "25h"`, `t.toml:3: tool a: timeout: want a duration above 0 and at most 24h, not "25h"`, ``},
		{`size_threshold = "1 lot"`, `t.toml:3: tool a: size_threshold: want a size such as "256KB", not "1 lot"`, ``},
		{`size_threshold = "3MB"`, `t.toml:3: tool a: size_threshold: want at least 1024 bytes and at most 2 MB, the bound of all results of one reply`, ``},
		{`size_threshold = 0`, `t.toml:3: tool a: size_threshold: want at least 1024 bytes and at most 2 MB, the bound of all results of one reply`, ``},
		{`size_threshold = 2.5`, `t.toml:3: tool a: size_threshold: want a size such as "256KB", not a number`, ``},
		{`parallel = "no"`, `t.toml:3: tool a: parallel: want true or false, not a string`, ``},
		{`enable = "no"`, `t.toml:3: tool a: enable: want true or false, not a string`, ``},
		{`env = "A"`, `t.toml:3: tool a: env: want a list of strings, not a string`, ``},
		{"env = [\"A\",\n 1]", `t.toml:4: tool a: env[1]: want a string, not an integer`, ``},
		{`env = ["ANTHROPIC_API_KEY"]`, `t.toml:3: tool a: env[0]: "ANTHROPIC_API_KEY" is the key of a model provider, and no tool gets one`, ``},
		{`env = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS"]`, `t.toml:3: tool a: env[0]: "OTEL_EXPORTER_OTLP_TRACES_HEADERS" may hold the key of a trace collector, and no tool gets one`, ``},
		{`env = ["LD_PRELOAD"]`, `t.toml:3: tool a: env[0]: "LD_PRELOAD" decides what programs load or run, and no tool gets one from outside`, ``},
		{`env = ["BASH_ENV"]`, `t.toml:3: tool a: env[0]: "BASH_ENV" decides what programs load or run, and no tool gets one from outside`, ``},
		{`env = ["JP_STORE"]`, `t.toml:3: tool a: env[0]: "JP_STORE" is jp's own`, ``},
		{`env = ["A=b"]`, `t.toml:3: tool a: env[0]: "A=b" is no name of a variable`, ``},
		{`env = ["A*"]`, `t.toml:3: tool a: env[0]: "A*" is no name of a variable`, ``},
		{`access = "all"`, `t.toml:3: tool a: access: want a table, not a string`, ``},
		{`access.net = true`, `t.toml:3: tool a: access.net: unknown key`, ``},
		{`access.fs = "."`, `t.toml:3: tool a: access.fs: want a list such as [{ path = ".", mode = "ro" }], not a string`, ``},
		{`access.fs = ["."]`, `t.toml:3: tool a: access.fs[0]: want a table, not a string`, ``},
		{`access.fs = [{ mode = "ro" }]`, `t.toml:3: tool a: access.fs[0]: path is missing`, ``},
		{`access.fs = [{ path = "" }]`, `t.toml:3: tool a: access.fs[0].path: is empty`, ``},
		{"access.fs = [{ path = \".\" },\n{ path = \".\", mode = \"w\" }]", `t.toml:4: tool a: access.fs[1].mode: want ro or rw, not "w"`, ``},
		{`access.fs = [{ path = "~/x" }]`, `t.toml:3: tool a: access.fs[0].path: "~/x": write the home folder as an absolute path`, ``},
		{`access.fs = [{ path = ".jp/config", mode = "rw" }]`, `t.toml:3: tool a: access.fs[0].path: ".jp/config": no tool reaches into .jp`, ``},
		{`access.fs = [{ path = "/w/.JP", mode = "rw" }]`, `t.toml:3: tool a: access.fs[0].path: "/w/.JP": no tool reaches into .jp`, ``},
		{`access.jp = "query"`, `t.toml:3: tool a: access.jp: want a list of strings, not a string`, ``},
		{`access.jp = ["rm"]`, `t.toml:3: tool a: access.jp[0]: want fork, query, ls, print or grep, not "rm"`, ``},
		{`network = "some"`, `t.toml:3: tool a: network: want none or any, not "some"`, ``},
		{`sandbox = "on"`, `t.toml:3: tool a: sandbox: want auto, require or off, not "on"`, ``},
		{`stdin = "text"`, `t.toml:3: tool a: stdin: want none or json, not "text"`, ``},
		{`output = "xml"`, `t.toml:3: tool a: output: want text or json, not "xml"`, ``},
		{`description = 1`, `t.toml:3: tool a: description: want a string, not an integer`, ``},
		{`description = "a\u0000b"`, `t.toml:3: tool a: description: holds a NUL byte`, ``},
		{`options = 1`, `t.toml:3: tool a: options: want a table, not an integer`, ``},
		{`parameters = 1`, `t.toml:3: tool a: parameters: want a table of tables, not an integer`, ``},
		{`parameters.p = 1`, `t.toml:3: tool a: parameters.p: want a table, not an integer`, ``},
		{`parameters.p = {}`, `t.toml:3: tool a: parameters.p: type is missing: string, number, integer, boolean, array, object or null`, ``},
		{`parameters.p.type = "text"`, `t.toml:3: tool a: parameters.p: type: want string, number, integer, boolean, array, object or null, not "text"`, ``},
		{`parameters.p = { type = "string", requird = true }`, `t.toml:3: tool a: parameters.p.requird: unknown key`, `did you mean "required"?`},
		{`parameters.p = { type = "string", required = "yes" }`, `t.toml:3: tool a: parameters.p.required: want true or false, not a string`, ``},
		{`parameters.p = { type = "string", required = true, default = "x" }`, `t.toml:3: tool a: parameters.p.default: a required parameter has no use for one`, ``},
		{`parameters.p = { type = "integer", default = "x" }`, `t.toml:3: tool a: parameters.p.default: does not fit: must be integer, not the string "x"`, ``},
		{`parameters.p = { type = "string", enum = ["a", 1] }`, `t.toml:3: tool a: parameters.p.enum: 1 is not of type string`, ``},
		{`parameters.p = { type = "string", enum = ["a"], default = "b" }`, `t.toml:3: tool a: parameters.p.default: does not fit: must be "a", not "b"`, ``},
		{`parameters.p = { type = "string", pattern = "(" }`, "t.toml:3: tool a: parameters.p: pattern: error parsing regexp: missing closing ): `(`", ``},
		{`parameters.p = { type = "string", minLength = -1 }`, `t.toml:3: tool a: parameters.p: minLength: want a count`, ``},
		{`parameters.p = { type = "array", items = { type = "string", allow_dash = true } }`, `t.toml:3: tool a: parameters.p.items.allow_dash: unknown key`, ``},
		{`parameters.p = { type = "array", items = {} }`, `t.toml:3: tool a: parameters.p.items: type is missing: string, number, integer, boolean, array, object or null`, ``},
		{`parameters.p = { type = "string", default = 2020-01-01 }`, `t.toml:3: tool a: parameters.p.default: does not fit: must match x`, ``},
		{`parameters."a b".type = "string"`, `t.toml:3: tool a: parameters.a b: not a parameter name: a letter or '_', then letters, digits, '_' or '-', at most 64`, ``},
		{`name = "b"`, `t.toml:3: tool a: name: is "b", but this is the definition of a`, ``},
	} {
		src := good + tt.src + "\n"
		_, marks, err := tomldoc.Decode([]byte(src), new(map[string]any))
		if err != nil {
			t.Fatal(err)
		}
		lines := marks.Lines()
		tab := table(t, src)
		if strings.Contains(tt.src, "2020-01-01") {
			tab["parameters"].(map[string]any)["p"].(map[string]any)["pattern"] = "x"
		}
		_, err = Decode("a", tab, func(key string) string {
			if lines[key] == 0 {
				return ""
			}
			return fmt.Sprintf("t.toml:%d", lines[key])
		})
		var bad *DefinitionError
		if !errors.As(err, &bad) || err.Error() != tt.want || bad.Hint != tt.hint {
			t.Errorf("%s\n got %v (%+v)\nwant %s (%s)", tt.src, err, bad, tt.want, tt.hint)
		}
	}
}

// What makes no sense only as a whole.
func TestDecodeWhole(t *testing.T) {
	for _, tt := range []struct{ src, want string }{
		{``, `tool a: source: is missing`},
		{`source = "local"`, `tool a: command: is missing`},
		{`source = "mine"`, `tool a: source: want builtin, local, delegation, conversation, interactive or mcp.<server>, not "mine"`},
		{`source = "mcp."`, `tool a: source: want builtin, local, delegation, conversation, interactive or mcp.<server>, not "mcp."`},
		{"source = \"builtin\"\ncommand = \"ls\"", `tool a: command: only a tool with source = "local" has one`},
		{"source = \"builtin\"\nstdin = \"json\"", `tool a: stdin: only a tool with source = "local" has one`},
		{"source = \"delegation\"\noutput = \"json\"", `tool a: output: only a tool with source = "local" has one`},
		{"source = \"local\"\ncommand = 1", `tool a: command: want a string, { program, args } or { script }, not an integer`},
		{"source = \"local\"\ncommand = { args = [] }", `tool a: command: program is missing`},
		{"source = \"local\"\ncommand = { program = \"ls\", arg = [] }", `tool a: command.arg: unknown key`},
		{"source = \"local\"\ncommand = { script_file = \"x.sh\", interpreter = \"bash\" }", `tool a: command.script_file: only the file of a definition can name one`},
		{"source = \"local\"\ncommand = { program = \"ls\", args = [\"{{\"] }", `tool a: command: args[0]: line 1, column 1: {{ is never closed`},
		{"source = \"local\"\ncommand = \"ls | wc\"", `tool a: command: line 1, column 4: | is shell syntax and means nothing here: quote it`},
		{"source = \"local\"\ncommand = \"ls {{x}}\"", `tool a: command: line 1, column 4: {{x}}: there is no x`},
		{"source = \"local\"\ncommand = \"ls {{tool}}\"", `tool a: command: line 1, column 4: {{tool}}: say which of name, arguments or options`},
		{"source = \"local\"\ncommand = \"ls {{tool.args.x}}\"", `tool a: command: line 1, column 4: {{tool.args.x}}: there is no tool.args`},
		{"source = \"local\"\ncommand = \"ls {{context.workspce}}\"", `tool a: command: line 1, column 4: {{context.workspce}}: there is no context.workspce; did you mean "workspace"?`},
		{"source = \"local\"\ncommand = \"ls {{tool.name.x}}\"", `tool a: command: line 1, column 4: {{tool.name.x}}: tool.name is a text`},
		{"source = \"local\"\ncommand = \"ls {{tool.options.x}}\"", `tool a: command: line 1, column 4: {{tool.options.x}}: there is no tool.options.x`},
		{"source = \"local\"\ncommand = \"ls {{tool.arguments.pth}}\"\nparameters.path.type = \"string\"", `tool a: command: line 1, column 4: {{tool.arguments.pth}}: there is no tool.arguments.pth; did you mean "path"?`},
		{"source = \"local\"\ncommand = \"ls {{tool.arguments.o.k}}\"\nparameters.o = { type = \"object\", properties = { l = { type = \"string\" } } }", `tool a: command: line 1, column 4: {{tool.arguments.o.k}}: there is no tool.arguments.o.k`},
		{"source = \"local\"\ncommand = { program = \"bash\", args = [\"-c\", \"{{tool.name}}\"] }", `tool a: command: a placeholder in argument 2 of bash: it would be code, or name it`},
	} {
		if _, err := Decode("a", table(t, tt.src), nil); err == nil || err.Error() != tt.want {
			t.Errorf("%s\n got %v\nwant %s", tt.src, err, tt.want)
		}
	}
	for _, name := range []string{"", "parallel", "*", "a b", "a/b", "ä", strings.Repeat("a", 65)} {
		if _, err := Decode(name, nil, nil); err == nil {
			t.Errorf("Decode(%q) = nil, want an error", name)
		}
	}
}

func TestOverlay(t *testing.T) {
	base, ok := Embedded("fs_read_file")
	if !ok {
		t.Fatal("fs_read_file is not embedded")
	}
	def, err := Overlay(base, table(t, `
enable = true
source = "builtin"
run = "unattended"
detached = "auto"
timeout = "5s"
access.fs = [{ path = "docs" }]`), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := base
	want.Run, want.Detached, want.Timeout = RunUnattended, Detached{DetachedAuto, DetachedAuto, DetachedAuto}, 5*time.Second
	want.Access, want.set = Access{FS: []fs.Rule{{Path: "docs", Mode: fs.ReadOnly}}}, def.set
	if !reflect.DeepEqual(def, want) {
		t.Errorf("Overlay = %+v\nwant %+v", def, want)
	}
	for _, tt := range []struct{ src, want string }{
		{`name = "x"`, `tool fs_read_file: name: belongs to the tool's own definition`},
		{`command = "ls"`, `tool fs_read_file: command: belongs to the tool's own definition`},
		{`parameters.x.type = "string"`, `tool fs_read_file: parameters: belongs to the tool's own definition`},
		{`source = "local"`, `tool fs_read_file: source: is "builtin" for this tool, not "local"`},
		{`stdin = "json"`, `tool fs_read_file: stdin: only a tool with source = "local" has one`},
		{`rum = "ask"`, `tool fs_read_file: rum: unknown key`},
	} {
		if _, err := Overlay(base, table(t, tt.src), nil); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.src, err, tt.want)
		}
	}
}

// The order is tool kind, tool scalar, defaults kind, defaults scalar, deny; and '*' never
// overrides what is said about the tool itself.
func TestWithDefaults(t *testing.T) {
	for _, tt := range []struct {
		tool, star string
		want       Detached
	}{
		{``, ``, Detached{DetachedDeny, DetachedDeny, DetachedDeny}},
		{``, `detached = "auto"`, Detached{DetachedAuto, DetachedAuto, DetachedAuto}},
		{``, `detached = { run = "auto" }`, Detached{DetachedAuto, DetachedDeny, DetachedDeny}},
		{`detached = "deny"`, `detached = "auto"`, Detached{DetachedDeny, DetachedDeny, DetachedDeny}},
		{`detached = { run = "defaults" }`, `detached = "auto"`, Detached{DetachedDefaults, DetachedAuto, DetachedAuto}},
		{`detached = { run = "defaults" }`, `detached = { deliver = "auto" }`, Detached{DetachedDefaults, DetachedAuto, DetachedDeny}},
		{`detached = "defaults"`, `detached = { deliver = "auto" }`, Detached{DetachedDefaults, DetachedDefaults, DetachedDefaults}},
	} {
		def, err := Decode("a", table(t, "source = \"local\"\ncommand = \"ls\"\n"+tt.tool), nil)
		if err != nil {
			t.Fatal(err)
		}
		def, err = def.WithDefaults(table(t, tt.star), nil)
		if err != nil || def.Detached != tt.want {
			t.Errorf("%s over %s = %v, %v, want %v", tt.tool, tt.star, def.Detached, err, tt.want)
		}
	}
	def, err := Decode("word_count", table(t, wordCount), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := def.WithDefaults(table(t, `
run = "deny"
result = "unattended"
timeout = "1s"
size_threshold = "2KB"
parallel = true
env = ["B"]
access.fs = []
network = "none"
sandbox = "auto"`), nil)
	if err != nil || !reflect.DeepEqual(got, def) {
		t.Errorf("WithDefaults = %+v, %v\nwant %+v", got, err, def)
	}
	for _, tt := range []struct{ src, want string }{
		{`description = "x"`, `tool '*': description: is not for all tools at once`},
		{`enable = false`, `tool '*': enable: is not for all tools at once`},
		{`rum = "ask"`, `tool '*': rum: unknown key`},
		{`run = "x"`, `tool '*': run: want ask, unattended or deny, not "x"`},
	} {
		if _, err := def.WithDefaults(table(t, tt.src), nil); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.src, err, tt.want)
		}
	}
}

func TestDefine(t *testing.T) {
	src := `
['*']
run = "unattended"
[fs_read_file]
[fs_grep_files]
enable = false
[word_count]
timeout = "5s"
[jp_query]
run = "ask"
[fs_list_files]
source = "local"
command = "ls"
[lister]
source = "local"
command = "ls -l"
`
	tables := map[string]map[string]any{}
	for name, v := range table(t, src) {
		tables[name] = v.(map[string]any)
	}
	wc, err := Decode("word_count", table(t, strings.Replace(wordCount, `run = "unattended"`, ``, 1)), nil)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]Definition{"word_count": wc, "unused": wc}
	got := ""
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		if name == "*" || !Enabled(tables[name]) {
			continue
		}
		d, err := Define(name, tables[name], nil, files)
		if err == nil {
			d, err = d.WithDefaults(tables["*"], nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		got += fmt.Sprintf("%s %s %s %s %s\n", d.Name, d.Source, d.Run, d.Timeout, d.Command.Program)
	}
	want := `fs_list_files local unattended 1m0s ls
fs_read_file builtin unattended 1m0s 
jp_query delegation ask 0s 
lister local unattended 1m0s ls
word_count local unattended 5s wc
`
	if got != want {
		t.Errorf("definitions =\n%swant\n%s", got, want)
	}
	pos := func(key string) string {
		if key == "run" || key == "source" {
			return "c.toml:7"
		}
		return ""
	}
	for _, tt := range []struct {
		name  string
		table map[string]any
		want  string
	}{
		{"b", map[string]any{"run": 1, "source": "local"}, "c.toml:7: tool b: run: want ask, unattended or deny, not an integer"},
		{"fs_raed_file", map[string]any{}, "c.toml:7: tool fs_raed_file: source: is missing"},
		{"fs_raed_file", map[string]any{"source": "builtin"}, `c.toml:7: tool fs_raed_file: source: is "builtin", and jp has no tool of this name`},
		{"fs_read_file", map[string]any{"source": "delegation"}, `c.toml:7: tool fs_read_file: source: is "builtin" for this tool, not "delegation"`},
		{"word_count", map[string]any{"source": "builtin"}, `c.toml:7: tool word_count: source: is "builtin", and jp has no tool of this name`},
	} {
		if _, err := Define(tt.name, tt.table, pos, files); err == nil || err.Error() != tt.want {
			t.Errorf("Define(%s, %v): %v, want %s", tt.name, tt.table, err, tt.want)
		}
	}
	if Enabled(map[string]any{"enable": false}) || !Enabled(map[string]any{"enable": true}) || !Enabled(nil) {
		t.Error("Enabled is not what the table says")
	}
}

func TestWithEnum(t *testing.T) {
	def, _ := Embedded("jp_query")
	two, err := def.WithEnum("config", []string{"b", "a"})
	if err != nil {
		t.Fatal(err)
	}
	for arg, want := range map[string]string{
		`{"config":"a","query":"q"}`: "",
		`{"config":"c","query":"q"}`: `arguments of jp_query: "config" must be "b" or "a", not "c"`,
	} {
		if _, err := two.Validate(json.RawMessage(arg)); fmt.Sprint(err) != want && !(err == nil && want == "") {
			t.Errorf("Validate(%s): %v, want %s", arg, err, want)
		}
	}
	if _, err := def.Validate(json.RawMessage(`{"config":"c","query":"q"}`)); err != nil {
		t.Errorf("WithEnum changed its receiver: %v", err)
	}
	if _, err := def.WithEnum("nope", nil); err == nil {
		t.Error("WithEnum(nope) = nil, want an error")
	}
	none, err := def.WithEnum("config", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.Validate(json.RawMessage(`{"config":"","query":"q"}`)); err == nil {
		t.Error("an empty enum takes a value")
	}

	batch, _ := Embedded("jp_batch_query")
	items, err := batch.WithEnum("queries.config", []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	for arg, want := range map[string]string{
		`{"queries":[{"config":"a","query":"q"}]}`: "",
		`{"queries":[]}`: "",
		`{"queries":[{"config":"a","query":"q"},{"config":"c","query":"q"}]}`: `arguments of jp_batch_query: "queries[1].config" must be "a", not "c"`,
	} {
		if _, err := items.Validate(json.RawMessage(arg)); fmt.Sprint(err) != want && !(err == nil && want == "") {
			t.Errorf("Validate(%s): %v, want %s", arg, err, want)
		}
	}
	for _, param := range []string{"queries", "queries.nope", "max_parallel.config", "config"} {
		if _, err := batch.WithEnum(param, nil); (err == nil) != (param == "queries") {
			t.Errorf("WithEnum(%s): %v", param, err)
		}
	}
}

var update = flag.Bool("update", false, "rewrite embedded.go")

// TestEmbedded: embedded.go says what the .toml files say, and each is under its own name.
func TestEmbedded(t *testing.T) {
	files, err := filepath.Glob("*.toml") // sorted
	if err != nil || len(files) == 0 {
		t.Fatalf("files = %v, %v", files, err)
	}
	var names []string
	var cases strings.Builder
	for _, file := range files {
		name := strings.TrimSuffix(file, ".toml")
		names = append(names, name)
		def, err := decodeFile(file, file, os.ReadFile)
		if err != nil || def.Name != name || def.Description == "" {
			t.Errorf("%s: %v, name %s, description %q", file, err, def.Name, def.Description)
		}
		for _, key := range []string{keyRun, keyResult, keyDetached} {
			if def.set[key] {
				t.Errorf("%s says %s: permission is for the config to give", name, key)
			}
		}
		if got, ok := Embedded(name); !ok || !reflect.DeepEqual(got, def) {
			t.Errorf("Embedded(%s) = %+v, want %+v of its file (go generate)", name, got, def)
		}
		schema := ""
		if def.set[keyParameters] {
			schema = string(def.Schema)
		}
		fmt.Fprintf(&cases, "\tcase %q:\n\t\treturn embeddedTool{%q, %q, %t, %q}, true\n", name, def.Source, def.Description, def.Parallel, schema)
	}
	if *update {
		text := "// Code generated by go test -run TestEmbedded -update; DO NOT EDIT.\n\npackage tools\n\n" +
			fmt.Sprintf("var embeddedNames = [...]string%s\n\n", strings.TrimPrefix(fmt.Sprintf("%#v", names), "[]string")) +
			"func embedded(name string) (embeddedTool, bool) {\n\tswitch name {\n" + cases.String() + "\t}\n\treturn embeddedTool{}, false\n}\n"
		if err := os.WriteFile("embedded.go", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"ask_user", "fs_create_file", "fs_grep_files", "fs_list_files", "fs_modify_file", "fs_read_file", "jp_batch_query", "jp_conversation_grep", "jp_conversation_list", "jp_conversation_print", "jp_query", "llm_query", "skill"}
	if got := EmbeddedNames(); !slices.Equal(got, want) {
		t.Errorf("EmbeddedNames = %v, want %v", got, want)
	}
	if _, ok := Embedded("../go"); ok {
		t.Error("Embedded(../go) exists")
	}
}
