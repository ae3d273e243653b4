package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strings"

	"jp/tools/schema"
)

// Call is one call of a tool, as the model wrote it. Arguments need not be JSON.
type Call struct {
	ID        string
	Name      string
	Arguments json.RawMessage
}

// Result is the result of a call. Text is valid UTF-8 and may be empty.
type Result struct {
	Text    string
	IsError bool
	Refused bool // nothing ran: unknown tool, bad arguments, no permission
}

// Func runs one call. Its arguments are valid by the schema of the tool, with defaults filled in,
// as one JSON object. A failure is a Result with IsError and a text for the model; an error is
// shown to the model as text too. It must return soon after ctx has ended and must be safe for
// concurrent use.
type Func func(ctx context.Context, call Call) (Result, error)

// Tool is a definition and what runs it.
type Tool struct {
	Definition
	Func  Func
	Ready func(context.Context) error       // makes it ready to be called, outside of its time; nil = it is
	Check func(context.Context, Call) error // reason why Func would refuse these arguments, before anybody is asked; nil = there is no such check

	schema *schema.Schema // schema as NewSet has read it; nil = not read yet
}

// Set is an immutable collection of tools, ordered by name. The zero Set is empty. It is safe for
// concurrent use.
type Set struct {
	tools []Tool // sorted by name
}

// NewSet makes a set. A name that is used twice, a tool without a Func or with a schema that cannot
// be used is an error.
func NewSet(tools ...Tool) (Set, error) {
	s := Set{tools: slices.Clone(tools)}
	sort.SliceStable(s.tools, func(i, j int) bool { return s.tools[i].Name < s.tools[j].Name })
	for i, t := range s.tools {
		switch {
		case !validName(t.Name):
			return Set{}, fmt.Errorf("tool %q: not a tool name: 1 to 64 letters, digits, '_' or '-'", t.Name)
		case i > 0 && s.tools[i-1].Name == t.Name:
			return Set{}, fmt.Errorf("tool %s: defined twice, as %s and as %s", t.Name, s.tools[i-1].Source, t.Source)
		case t.Func == nil:
			return Set{}, fmt.Errorf("tool %s: nothing runs it (source %s)", t.Name, t.Source)
		}
		parsed, err := schema.Parse(t.Schema)
		if err != nil {
			return Set{}, fmt.Errorf("tool %s: schema: %w", t.Name, err)
		}
		s.tools[i].schema = parsed
	}
	return s, nil
}

// Narrow returns the tools for which keep is true. It is the only operation on sets: none adds
// tools.
func (s Set) Narrow(keep func(name, source string) bool) Set {
	var out []Tool
	for _, t := range s.tools {
		if keep(t.Name, t.Source) {
			out = append(out, t)
		}
	}
	return Set{tools: out}
}

// Get returns the tool of that name.
func (s Set) Get(name string) (Tool, bool) {
	i, ok := slices.BinarySearchFunc(s.tools, name, func(t Tool, n string) int { return strings.Compare(t.Name, n) })
	if !ok {
		return Tool{}, false
	}
	return s.tools[i], true
}

// All yields the tools by name.
func (s Set) All() iter.Seq[Tool] { return slices.Values(s.tools) }

// Names returns the names in order; empty, not nil, for an empty set.
func (s Set) Names() []string {
	names := make([]string, len(s.tools))
	for i, t := range s.tools {
		names[i] = t.Name
	}
	return names
}

// Len returns the number of tools.
func (s Set) Len() int { return len(s.tools) }

// validName reports whether every provider accepts the name. "parallel" is a setting beside the
// tools in config files.
func validName(name string) bool {
	if name == "" || len(name) > 64 || name == "parallel" {
		return false
	}
	return strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	}) < 0
}
