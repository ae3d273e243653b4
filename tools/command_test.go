package tools

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"jp/tools/brief"
	"jp/tools/template"
)

// fromTable makes a command line of { program, args }.
func fromTable(program string, args ...string) (CommandLine, error) {
	return parseCommandTable(program, args)
}

// data has these arguments, where nil is one that was not given.
func data(args map[string]any) map[string]any {
	all := map[string]any{}
	for k, v := range args {
		if all[k] = v; v == nil {
			all[k] = template.Omitted
		}
	}
	return map[string]any{
		"tool":    map[string]any{"name": "t", "arguments": all, "options": map[string]any{"flag": "-v"}},
		"context": map[string]any{"workspace": "/w"},
	}
}

func TestRenderText(t *testing.T) {
	for _, tt := range []struct {
		command string
		args    map[string]any
		want    []string
	}{
		{"echo a 'b c'", nil, []string{"a", "b c"}},
		{"echo {{tool.arguments.x}}", map[string]any{"x": "a b; $(c) 'd' \"e\" \n*"}, []string{"a b; $(c) 'd' \"e\" \n*"}},
		{"echo {{tool.arguments.x}}", map[string]any{"x": ""}, []string{""}},
		{"echo {{tool.arguments.x}}{{tool.arguments.y}}", map[string]any{"x": "a ", "y": " b"}, []string{"a  b"}},
		// In this form one placeholder is always one argument.
		{"echo {{tool.arguments.x}}", map[string]any{"x": []any{"a", "b"}}, []string{`["a","b"]`}},
		{"echo {{#if tool.arguments.x}}y{{/if}} z", map[string]any{"x": nil}, []string{"", "z"}},
		{"echo --n={{tool.arguments.x}} {{context.workspace}}", map[string]any{"x": "-1"}, []string{"--n=-1", "/w"}},
		{"echo -- {{tool.arguments.x}}", map[string]any{"x": "-rf"}, []string{"--", "-rf"}},
		{"echo {{tool.options.flag}} x", nil, []string{"-v", "x"}},
		{"echo '{{tool.arguments.x}}' \"{{tool.arguments.x}}\"", map[string]any{"x": "'\"$"}, []string{"'\"$", "'\"$"}},
	} {
		c, err := parseCommandText(tt.command)
		if err != nil {
			t.Errorf("%s: %v", tt.command, err)
			continue
		}
		if got, err := c.render(data(tt.args), nil); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s with %v = %q, %v, want %q", tt.command, tt.args, got, err, tt.want)
		}
	}
}

func TestRenderTable(t *testing.T) {
	list := []any{"a", "b c", ""}
	for _, tt := range []struct {
		args   []string
		values map[string]any
		want   []string
	}{
		{[]string{"", "a b"}, nil, []string{"", "a b"}},
		{[]string{"{{tool.arguments.x}}"}, map[string]any{"x": list}, []string{"a", "b c", ""}},
		{[]string{"{{tool.arguments.x}}"}, map[string]any{"x": []any{}}, nil},
		{[]string{"{{tool.arguments.x}}"}, map[string]any{"x": "one"}, []string{"one"}},
		{[]string{"x{{tool.arguments.x}}"}, map[string]any{"x": []any{"a"}}, []string{`x["a"]`}},
		{[]string{"{{#if tool.arguments.x}}-n{{/if}}", "z"}, map[string]any{"x": nil}, []string{"z"}},
		{[]string{"{{#if tool.arguments.x}}-n{{/if}}", "z"}, map[string]any{"x": "y"}, []string{"-n", "z"}},
		{[]string{"{{#if tool.arguments.x}}{{tool.arguments.x}}{{else}}none{{/if}}"}, map[string]any{"x": list}, []string{"a", "b c", ""}},
		{[]string{"{{#if tool.arguments.x}}{{tool.arguments.x}}{{else}}none{{/if}}"}, map[string]any{"x": nil}, []string{"none"}},
		{[]string{"{{#for e in tool.arguments.x}}--e={{e}}{{/for}}"}, map[string]any{"x": list}, []string{"--e=a", "--e=b c", "--e="}},
		{[]string{"{{#for e in tool.arguments.x}}--e={{e}}{{/for}}"}, map[string]any{"x": nil}, nil},
		{[]string{"{{#for e in tool.arguments.x}}{{#if e}}{{e}}{{/if}}{{/for}}"}, map[string]any{"x": list}, []string{"a", "b c"}},
		{[]string{"<{{#for e in tool.arguments.x}}{{e}},{{/for}}>"}, map[string]any{"x": list}, []string{"<a,b c,,>"}},
		{[]string{"--", "{{tool.arguments.x}}"}, map[string]any{"x": []any{"-a", "--"}}, []string{"--", "-a", "--"}},
	} {
		c, err := fromTable("echo", tt.args...)
		if err != nil {
			t.Errorf("%q: %v", tt.args, err)
			continue
		}
		if got, err := c.render(data(tt.values), nil); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%q with %v = %q, %v, want %q", tt.args, tt.values, got, err, tt.want)
		}
	}
}

// A value never becomes an option, NUL never a shorter argument.
func TestRenderRefuses(t *testing.T) {
	dash := func(name, value string) string {
		return `argument "` + name + `" must not start with '-': "` + value + `" would be an option, not a value`
	}
	for _, tt := range []struct {
		args   []string
		values map[string]any
		want   string
	}{
		{[]string{"{{tool.arguments.x}}"}, map[string]any{"x": "-rf"}, dash("x", "-rf")},
		{[]string{"{{tool.arguments.x}}"}, map[string]any{"x": "-"}, dash("x", "-")},
		{[]string{"{{tool.arguments.x}}"}, map[string]any{"x": []any{"a", "--b"}}, dash("x", "--b")},
		{[]string{"{{tool.arguments.x}}.txt"}, map[string]any{"x": "-o"}, dash("x", "-o.txt")},
		{[]string{"{{tool.arguments.x}}{{tool.arguments.y}}"}, map[string]any{"x": "", "y": "-y"}, dash("y", "-y")},
		{[]string{"{{tool.arguments.x}}{{tool.arguments.y}}"}, map[string]any{"x": "-", "y": "-y"}, dash("x", "--y")},
		{[]string{"{{#for e in tool.arguments.x}}{{e}}{{/for}}"}, map[string]any{"x": []any{"-e"}}, dash("x", "-e")},
		{[]string{"{{#for e in tool.arguments.x}}{{e.k}}{{/for}}"}, map[string]any{"x": []any{map[string]any{"k": "-e"}}}, dash("x", "-e")},
		{[]string{"{{#if tool.arguments.y}}--{{/if}}", "{{tool.arguments.x}}"}, map[string]any{"x": "-e", "y": nil}, dash("x", "-e")},
		// A -- that is a value ends nothing.
		{[]string{"{{tool.arguments.y}}", "{{tool.arguments.x}}"}, map[string]any{"x": "-e", "y": "--"}, dash("y", "--")},
		{[]string{"-{{tool.arguments.y}}", "{{tool.arguments.x}}"}, map[string]any{"x": "-e", "y": "-"}, dash("x", "-e")},
		{[]string{"{{tool.arguments.x}}", "--"}, map[string]any{"x": "-e"}, dash("x", "-e")},
		{[]string{"a{{tool.arguments.x}}"}, map[string]any{"x": "b\x00c"}, `argument "x" holds a NUL byte`},
		{[]string{"a{{tool.arguments.x}}"}, map[string]any{"x": strings.Repeat("a", maxArgument)}, `argument "x" is too long: an argument of a program is at most 131 KB`},
		{[]string{"{{tool.arguments.x}}"}, map[string]any{"x": nil}, "line 1, column 1: tool.arguments.x was not given; ask for it with {{#if tool.arguments.x}}"},
		{[]string{"{{tool.arguments.x}}"}, map[string]any{"x": []any{nil}}, "line 1, column 1: tool.arguments.x holds null"},
		{[]string{"{{#for e in tool.arguments.x}}{{tool.arguments.y}}{{/for}}"}, map[string]any{"x": slices.Repeat([]any{""}, 2000), "y": slices.Repeat([]any{""}, 2000)},
			"line 1, column 31: the loops go on for more than 1000000 steps"},
	} {
		c, err := fromTable("echo", tt.args...)
		if err != nil {
			t.Errorf("%q: %v", tt.args, err)
			continue
		}
		got, err := c.render(data(tt.values), nil)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%q = %q, %v, want %s", tt.args, got, err, brief.Shorten(tt.want, 100))
		}
	}
	c, err := fromTable("echo", "{{tool.arguments.x}}")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.render(data(map[string]any{"x": "-rf"}), map[string]bool{"x": true}); err != nil || !slices.Equal(got, []string{"-rf"}) {
		t.Errorf("with allow_dash = %q, %v", got, err)
	}
}

func TestCommandRefuses(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", "is empty"},
		{"{{tool.arguments.x}} a", "program: a placeholder cannot choose what runs"},
		{"a{{tool.arguments.x}} a", "program: a placeholder cannot choose what runs"},
		{"'' a", `program: "" is no program`},
		{"bin/ a", `program: "bin/" is no program`},
		{"#!/bin/sh\necho", "is a script, not a command: write command = { script = ... }"},
		{"a {{#if tool.arguments.x}}b c{{/if}}", "line 1, column 3: {{#if tool.arguments.x}} is never closed: {{/if}} is missing in the same word; for an argument that may be absent write command = { program, args }"},
		{"a " + strings.Repeat("b", maxCommand), "is longer than 32 KB"},
	} {
		if _, err := parseCommandText(tt.in); err == nil || err.Error() != tt.want {
			t.Errorf("parseCommandText(%q): %v, want %q", brief.Shorten(tt.in, 60), err, tt.want)
		}
	}
}

// FuzzCommand: whatever the value, a placeholder that is a word of its own is one argument, and
// never an option.
func FuzzCommand(f *testing.F) {
	for _, s := range []string{"", "a", "-", "--", "-rf", " -a", "a\x00", "{{x}}", "$(id)", "'\"", "\n-"} {
		f.Add(s)
	}
	c, err := parseCommandText("prog first {{tool.arguments.x}} --o={{tool.arguments.x}} -- {{tool.arguments.x}}")
	if err != nil {
		f.Fatal(err)
	}
	plain, err := parseCommandText("prog --o={{tool.arguments.x}} -- {{tool.arguments.x}}")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, value string) {
		args := data(map[string]any{"x": value})
		got, err := c.render(args, nil)
		var bad *template.ValueError
		refuse := strings.HasPrefix(value, "-") || strings.Contains(value, "\x00")
		if refuse != (err != nil) || err != nil && !errors.As(err, &bad) {
			t.Fatalf("render(%q) = %q, %v, want refused: %v", value, got, err, refuse)
		}
		if want := []string{"first", value, "--o=" + value, "--", value}; err == nil && !slices.Equal(got, want) {
			t.Errorf("render(%q) = %q, want %q", value, got, want)
		}
		got, err = plain.render(args, nil)
		if want := []string{"--o=" + value, "--", value}; !strings.Contains(value, "\x00") && (err != nil || !slices.Equal(got, want)) {
			t.Errorf("render(%q) = %q, %v, want %q", value, got, err, want)
		}
	})
}
