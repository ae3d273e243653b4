package template

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"jp/tools/brief"
	"jp/tools/jsondoc"
)

// Omitted is the value, in template data, of an optional argument that was not given. It is false
// in #if, empty in #for and an error elsewhere.
const Omitted omitted = 0

type omitted uint8

// Bounds of templates: against hostile arguments of a good template, and against hostile templates.
const (
	maxBlocks   = 50        // nested blocks
	MaxRendered = 4_000_000 // bytes of one text
	MaxSteps    = 1_000_000 // texts, values, conditions and elements of loops
)

// Renderer renders the nodes of a template, piece by piece. It is not safe for concurrent use.
type Renderer struct {
	Data map[string]any
	// Emit is called with each piece. Literal text has a nil path, a value has the path that it
	// came from; a loop variable has the path of its list.
	Emit func(s string, from *Path)
	Size int // bytes so far

	loop  *scope
	steps int
}

// scope is a loop variable and those around it.
type scope struct {
	name  string
	value any
	from  *Path
	outer *scope
}

// Nodes renders nodes. The error is an *Error.
func (r *Renderer) Nodes(nodes []Node) error {
	for _, n := range nodes {
		if err := r.node(n); err != nil {
			return err
		}
	}
	return nil
}

func (r *Renderer) node(n Node) error {
	switch n := n.(type) {
	case Text:
		return r.Put(n.Text, nil, Position{1, 1})
	case Value:
		v, from, err := r.Value(n.Path)
		if err != nil {
			return err
		}
		s, err := ValueText(v)
		if err != nil {
			return n.Path.At.Errorf("%s %v", n.Path, err)
		}
		return r.Put(s, from, n.Path.At)
	case If:
		v, _, err := r.Lookup(n.Path)
		if err != nil {
			return err
		}
		if Truthy(v) {
			return r.Nodes(n.Then)
		}
		return r.Nodes(n.Else)
	case For:
		return r.Each(n, func() error { return r.Nodes(n.Body) })
	}
	return nil
}

// Each calls body once for each element of the list of n, with the loop variable set.
func (r *Renderer) Each(n For, body func() error) error {
	v, from, err := r.Lookup(n.Path)
	if err != nil {
		return err
	}
	if v == Omitted {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		return n.Path.At.Errorf("%s is no list", n.Path)
	}
	outer := r.loop
	defer func() { r.loop = outer }()
	for _, e := range list {
		r.loop = &scope{n.Name, e, from, outer}
		if err := r.step(n.Path.At); err != nil {
			return err
		}
		if err := body(); err != nil {
			return err
		}
	}
	return nil
}

// step counts a step at a place, towards the bound.
func (r *Renderer) step(at Position) error {
	if r.steps++; r.steps > MaxSteps {
		return at.Errorf("the loops go on for more than %d steps", MaxSteps)
	}
	return nil
}

// Put emits s and counts it towards the bounds.
func (r *Renderer) Put(s string, from *Path, at Position) error {
	if err := r.step(at); err != nil {
		return err
	}
	if r.Size += len(s); r.Size > MaxRendered {
		return at.Errorf("renders to more than %s", brief.Size(MaxRendered))
	}
	r.Emit(s, from)
	return nil
}

// Value is [Renderer.Lookup] for a place that needs a value.
func (r *Renderer) Value(p *Path) (any, *Path, error) {
	v, from, err := r.Lookup(p)
	switch {
	case err != nil:
		return nil, nil, err
	case v == Omitted:
		return nil, nil, p.At.Errorf("%s was not given; ask for it with {{#if %s}}", p, p)
	case v == nil:
		return nil, nil, p.At.Errorf("%s is null", p)
	}
	return v, from, nil
}

// Lookup returns the value at p, which may be Omitted, and the path in data that it came from.
func (r *Renderer) Lookup(p *Path) (any, *Path, error) {
	if err := r.step(p.At); err != nil {
		return nil, nil, err
	}
	var v any = r.Data
	keys, from := p.Keys, p
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
			end := len(p.Keys) - len(keys) + i + 1
			return nil, nil, p.At.Errorf("%s is missing", &Path{Keys: p.Keys[:end]})
		}
	}
	return v, from, nil
}

// Truthy reports whether #if takes its first branch for v.
func Truthy(v any) bool {
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

// ValueText is a value as it is written into a text.
func ValueText(v any) (string, error) {
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
	b, err := jsondoc.Encode(WithoutOmitted(v))
	if err != nil {
		return "", fmt.Errorf("cannot be written: %w", err)
	}
	return string(b), nil
}

// WithoutOmitted returns a copy of v without what was omitted.
func WithoutOmitted(v any) any {
	v = jsondoc.Each(v, WithoutOmitted)
	if m, ok := v.(map[string]any); ok {
		maps.DeleteFunc(m, func(_ string, e any) bool { return e == Omitted })
	}
	return v
}
