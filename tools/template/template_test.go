package template

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"jp/tools/brief"
)

// Render returns the text with every tag replaced.
func (t *Template) Render(data map[string]any) (string, error) {
	var b strings.Builder
	r := Renderer{Data: data, Emit: func(s string, _ *Path) { b.WriteString(s) }}
	err := r.Nodes(t.Nodes)
	if err != nil {
		return "", err
	}
	return b.String(), nil
}

// templateData is a bit of everything.
func templateData() map[string]any {
	return map[string]any{
		"tool": map[string]any{
			"name": "t",
			"arguments": map[string]any{
				"s": "a b", "empty": "", "n": json.Number("1.50"), "zero": json.Number("0"), "yes": true, "no": false, "null": nil,
				"list":  []any{"x", json.Number("2"), []any{"y"}},
				"none":  []any{},
				"pairs": []any{map[string]any{"k": "a", "v": []any{"1", "2"}}, map[string]any{"k": "b", "v": []any{}}},
				"obj":   map[string]any{"b<": "&", "a": json.Number("1")},
				"odd":   map[string]any{"a b": map[string]any{`q"\`: "deep"}},
				"gone":  Omitted,
				"open":  map[string]any{"there": "1", "gone": Omitted},
				"tagA":  "{{s}}",
			},
		},
		"context": map[string]any{"i": 3, "j": int64(4), "f": 0.5},
	}
}

func TestTemplateRender(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{"plain } } { text", "plain } } { text"},
		{"{{tool.name}}", "t"},
		{"<{{ tool.arguments.s }}>", "<a b>"},
		{"{{\n\ttool.name\n}}", "t"},
		{`{{tool["arguments"]["s"]}}`, "a b"},
		{`{{tool.arguments.odd["a b"]["q\"\\"]}}`, "deep"},
		{"{{tool.arguments.n}} {{tool.arguments.yes}} {{tool.arguments.no}}", "1.50 true false"},
		{"{{context.i}} {{context.j}} {{context.f}}", "3 4 0.5"},
		{"{{tool.arguments.list}}", `["x",2,["y"]]`},
		{"{{tool.arguments.obj}}", `{"a":1,"b<":"&"}`},
		{"{{tool.arguments.open}}", `{"there":"1"}`},
		{"{{#if tool.arguments.s}}yes{{/if}}", "yes"},
		{"{{#if tool.arguments.gone}}yes{{else}}no{{/if}}", "no"},
		{"{{#if tool.arguments.gone.deeper}}yes{{else}}no{{/if}}", "no"},
		{"{{#if tool.arguments.open.gone}}yes{{else}}no{{/if}}", "no"},
		{"{{#for x in tool.arguments.gone}}{{x}}{{/for}}", ""},
		{"{{#for x in tool.arguments.list}}[{{x}}]{{/for}}", `[x][2][["y"]]`},
		{"{{#for x in tool.arguments.none}}[{{x}}]{{/for}}", ""},
		{"{{#for p in tool.arguments.pairs}}{{p.k}}={{#for v in p.v}}{{v}},{{/for}};{{/for}}", "a=1,2,;b=;"},
		{"{{#if tool.arguments.s}}{{#if tool.arguments.no}}a{{else}}b{{/if}}{{else}}c{{/if}}", "b"},
		{`{{"{{"}}tool.name}}`, "{{tool.name}}"},
		{`{{"a\"b\\c"}}`, `a"b\c`},
		{"{{tool.arguments.tagA}}", "{{s}}"}, // a value is never a template
	} {
		tmpl, err := Parse(tt.in)
		if err != nil {
			t.Errorf("ParseTemplate(%q): %v", tt.in, err)
			continue
		}
		if got, err := tmpl.Render(templateData()); got != tt.want || err != nil {
			t.Errorf("Render(%q) = %q, %v, want %q", tt.in, got, err, tt.want)
		}
	}
}

func TestTemplateTruth(t *testing.T) {
	for name, want := range map[string]bool{
		"s": true, "empty": false, "n": true, "zero": false, "yes": true, "no": false, "null": false,
		"list": true, "none": false, "obj": true, "gone": false,
	} {
		tmpl, err := Parse("{{#if tool.arguments." + name + "}}true{{/if}}")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tmpl.Render(templateData()); (got == "true") != want || err != nil {
			t.Errorf("#if %s = %q, %v, want %v", name, got, err, want)
		}
	}
}

func TestTemplateErrors(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"{{", "line 1, column 1: {{ is never closed"},
		{"a\nü {{tool.name", "line 2, column 3: {{ is never closed"},
		{"{{ tool.{{name}} }}", "line 1, column 1: {{ is never closed"},
		{`{{"}}`, "line 1, column 1: {{ is never closed"},
		{"{{}}", "line 1, column 1: {{}}: want a path such as tool.arguments.name"},
		{"{{ tool. }}", "line 1, column 1: {{tool.}}: want a path such as tool.arguments.name"},
		{"{{tool name}}", "line 1, column 1: {{tool name}}: want a path such as tool.arguments.name"},
		{"{{tool.name | upper}}", "line 1, column 1: {{tool.name | upper}}: want a path such as tool.arguments.name"},
		{"{{tool[0]}}", "line 1, column 1: {{tool[0]}}: want a path such as tool.arguments.name"},
		{`{{tool["a"}}`, `line 1, column 1: {{tool["a"}}: want a path such as tool.arguments.name`},
		{`{{tool["a\n"]}}`, `line 1, column 1: unknown escape in "a\n"]: there are \" and \\`},
		{`{{"a" b}}`, `line 1, column 1: {{"a" b}}: unexpected " b" after the string`},
		{"x {{/if}}", "line 1, column 3: {{/if}} has no beginning"},
		{"{{else}}", "line 1, column 1: {{else}} has no beginning"},
		{"{{#if tool.name}}x", "line 1, column 1: {{#if tool.name}} is never closed: {{/if}} is missing"},
		{"{{#if tool.name}}x{{else}}y", "line 1, column 1: {{#if tool.name}} is never closed: {{/if}} is missing"},
		{"{{#if tool.name}}x{{else}}y{{else}}z{{/if}}", "line 1, column 28: {{else}} where {{/if}} should be, for the {{#if tool.name}} of line 1"},
		{"{{#if tool.name}}\nx{{/for}}", "line 2, column 2: {{/for}} where {{/if}} should be, for the {{#if tool.name}} of line 1"},
		{"{{#for x in tool.name}}{{else}}{{/for}}", "line 1, column 24: {{else}} where {{/for}} should be, for the {{#for x in tool.name}} of line 1"},
		{"{{#if}}x{{/if}}", "line 1, column 1: {{#if}}: want a path such as tool.arguments.name"},
		{"{{#if a b}}x{{/if}}", "line 1, column 1: {{#if a b}}: want a path such as tool.arguments.name"},
		{"{{#each x}}{{/each}}", "line 1, column 1: {{#each}}: unknown block; there are #if and #for"},
		{"{{#for x of y}}{{/for}}", "line 1, column 1: want {{#for NAME in LIST}}"},
		{"{{#for 1 in y}}{{/for}}", `line 1, column 1: "1" is not a name`},
		{"{{#for tool in y}}{{/for}}", `line 1, column 1: "tool" is taken; choose another name for the loop`},
		{"{{#for x in y}}{{#for x in y}}{{/for}}{{/for}}", `line 1, column 16: "x" is taken; choose another name for the loop`},
		{"{{tool.nme}}", "line 1, column 1: tool.nme is missing"},
		{"ab {{tool.arguments.s.deep}}", "line 1, column 4: tool.arguments.s.deep is missing"},
		{"{{missing}}", "line 1, column 1: missing is missing"},
		{"{{#if tool.nme}}{{/if}}", "line 1, column 1: tool.nme is missing"},
		{"{{#for x in tool.nme}}{{/for}}", "line 1, column 1: tool.nme is missing"},
		{"{{#for x in tool.name}}{{/for}}", "line 1, column 1: tool.name is no list"},
		{"{{#for x in tool.arguments.list}}{{x.y}}{{/for}}", "line 1, column 34: x.y is missing"},
		{"{{x}}{{#for x in tool.arguments.list}}{{/for}}", "line 1, column 1: x is missing"},
		{"{{tool.arguments.gone}}", "line 1, column 1: tool.arguments.gone was not given; ask for it with {{#if tool.arguments.gone}}"},
		{"{{tool.arguments.null}}", "line 1, column 1: tool.arguments.null is null"},
		{strings.Repeat("{{#if tool.name}}", 51) + strings.Repeat("{{/if}}", 51), "line 1, column 851: more than 50 nested blocks"},
	} {
		tmpl, err := Parse(tt.in)
		if err == nil {
			_, err = tmpl.Render(templateData())
		}
		var bad *Error
		if !errors.As(err, &bad) || err.Error() != tt.want {
			t.Errorf("%q: %v, want %q", brief.Shorten(tt.in, 80), err, tt.want)
		}
	}
}

// A small template and a small argument must not make a large text.
func TestTemplateBounds(t *testing.T) {
	list := make([]any, 2000)
	for i := range list {
		list[i] = strings.Repeat("x", 100)
	}
	data := map[string]any{"l": list, "few": list[:400]}
	for _, in := range []string{
		"{{#for a in l}}{{#for b in l}}{{b}}{{/for}}{{/for}}",
		"{{#for a in l}}{{#for b in l}}{{/for}}{{/for}}",
		"{{#for a in few}}{{#for b in few}}" + strings.Repeat("{{#if b}}{{/if}}", 6) + "{{/for}}{{/for}}",
	} {
		tmpl, err := Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tmpl.Render(data); err == nil {
			t.Errorf("Render(%q) = %d bytes, want an error", in, len(got))
		}
	}
}

// FuzzTemplate: nothing panics; a text without tags is itself; what is parsed renders to the same
// each time; an error has a place in the text.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{
		"", "a", "{{tool.name}}", `{{tool["name"]}}`, "{{#if tool.arguments.s}}a{{else}}b{{/if}}", "{{#for x in tool.arguments.list}}{{x}}{{/for}}",
		`{{"{{"}}`, "{{#for p in tool.arguments.pairs}}{{p.k}}{{#for v in p.v}}{{v}}{{/for}}{{/for}}", "{{/if}}", "{{else}}", "{{", "{{#if", "}}",
		`{{tool.arguments.odd["a b"]["q\"\\"]}}`, "{{tool.arguments.gone}}", "\n\n{{x", "{{#for x in y}}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		tmpl, err := Parse(in)
		if err == nil {
			var out, again string
			out, err = tmpl.Render(templateData())
			again, _ = tmpl.Render(templateData())
			if out != again {
				t.Errorf("Render(%q) = %q, then %q", in, out, again)
			}
			if !strings.Contains(in, "{{") && (out != in || err != nil) {
				t.Errorf("Render(%q) = %q, %v, want itself", in, out, err)
			}
		}
		var bad *Error
		if err != nil && !errors.As(err, &bad) {
			t.Errorf("%q: %T %v, want a *Error", in, err, err)
		}
		if bad != nil && (bad.Line < 1 || bad.Line > 1+strings.Count(in, "\n") || bad.Column < 1) {
			t.Errorf("%q: %v: no such place", in, err)
		}
	})
}
