package tools

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"jp/tools/brief"
	"jp/tools/jsondoc"
)

// Omitted stands in template data for an optional argument that was not given.
// It is false in #if, empty in #for and an error elsewhere.
const Omitted omitted = 0

type omitted uint8

// Bounds of templates: what a hostile argument can make of a good template,
// and a hostile template of the parser.
const (
	maxBlocks   = 50        // nested blocks
	maxRendered = 4_000_000 // bytes of one text
	maxSteps    = 1_000_000 // nodes rendered
)

// Render returns the text with every tag replaced. Strings stand as they are,
// numbers and booleans as in JSON, lists and objects as JSON. In #if, false,
// null, 0, "" and what is empty or omitted are false. A key that is missing
// from data, and a null outside #if, is a *TemplateError.
func (t *Template) Render(data map[string]any) (string, error) {
	var b strings.Builder
	r := renderer{data: data, emit: func(s string, _ *path) { b.WriteString(s) }}
	if err := r.nodes(t.nodes); err != nil {
		return "", err
	}
	return b.String(), nil
}

// renderer renders nodes to emit, which is told of each piece: literal text
// with a nil path, a value with the path that it came from. Paths of loop
// variables are those of their lists.
type renderer struct {
	data  map[string]any
	loop  *scope
	emit  func(s string, from *path)
	size  int
	steps int
}

// scope is a loop variable and those around it.
type scope struct {
	name  string
	value any
	from  *path
	outer *scope
}

func (r *renderer) nodes(nodes []node) error {
	for _, n := range nodes {
		if err := r.node(n); err != nil {
			return err
		}
	}
	return nil
}

func (r *renderer) node(n node) error {
	switch n := n.(type) {
	case textNode:
		return r.put(n.text, nil, position{1, 1})
	case valNode:
		v, from, err := r.value(n.path)
		if err != nil {
			return err
		}
		s, err := valueText(v)
		if err != nil {
			return n.path.at.errorf("%s %v", n.path, err)
		}
		return r.put(s, from, n.path.at)
	case ifNode:
		v, _, err := r.lookup(n.path)
		if err != nil {
			return err
		}
		if truthy(v) {
			return r.nodes(n.then)
		}
		return r.nodes(n.alt)
	case forNode:
		return r.each(n, func() error { return r.nodes(n.body) })
	}
	return nil
}

// each calls body once for each element of the list of n, with the loop
// variable set.
func (r *renderer) each(n forNode, body func() error) error {
	v, from, err := r.lookup(n.path)
	if err != nil {
		return err
	}
	if v == Omitted {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		return n.path.at.errorf("%s is no list", n.path)
	}
	outer := r.loop
	defer func() { r.loop = outer }()
	for _, e := range list {
		r.loop = &scope{n.name, e, from, outer}
		if r.steps++; r.steps > maxSteps {
			return n.path.at.errorf("the loops go on for more than %d steps", maxSteps)
		}
		if err := body(); err != nil {
			return err
		}
	}
	return nil
}

func (r *renderer) put(s string, from *path, at position) error {
	r.steps++
	if r.size += len(s); r.size > maxRendered || r.steps > maxSteps {
		return at.errorf("renders to more than %s", brief.Size(maxRendered))
	}
	r.emit(s, from)
	return nil
}

// value is lookup for a place that needs a value.
func (r *renderer) value(p *path) (any, *path, error) {
	v, from, err := r.lookup(p)
	switch {
	case err != nil:
		return nil, nil, err
	case v == Omitted:
		return nil, nil, p.at.errorf("%s was not given; ask for it with {{#if %s}}", p, p)
	case v == nil:
		return nil, nil, p.at.errorf("%s is null", p)
	}
	return v, from, nil
}

// lookup finds the value at p, which may be Omitted, and the path in data that
// it came from.
func (r *renderer) lookup(p *path) (any, *path, error) {
	var v any = r.data
	keys, from := p.keys, p
	for s := r.loop; s != nil; s = s.outer {
		if s.name == keys[0] {
			v, from, keys = s.value, s.from, keys[1:]
			break
		}
	}
	for i, k := range keys {
		if v == Omitted {
			return Omitted, from, nil
		}
		m, ok := v.(map[string]any)
		if ok {
			v, ok = m[k]
		}
		if !ok {
			end := len(p.keys) - len(keys) + i + 1
			return nil, nil, p.at.errorf("%s is missing", &path{keys: p.keys[:end]})
		}
	}
	return v, from, nil
}

// truthy is what #if asks.
func truthy(v any) bool {
	switch v := v.(type) {
	case nil, omitted:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	case json.Number:
		f, err := v.Float64()
		return err != nil || f != 0
	case int:
		return v != 0
	case int64:
		return v != 0
	case float64:
		return v != 0
	}
	return true
}

// valueText is a value as it stands in a text.
func valueText(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case json.Number:
		return v.String(), nil
	case int:
		return strconv.Itoa(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	}
	b, err := jsondoc.Encode(plainJSON(v))
	if err != nil {
		return "", fmt.Errorf("cannot be written: %w", err)
	}
	return string(b), nil
}

// plainJSON is v without what was omitted.
func plainJSON(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			if e != Omitted {
				out[k] = plainJSON(e)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = plainJSON(e)
		}
		return out
	}
	return v
}
