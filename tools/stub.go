package tools

import (
	"context"
	"encoding/json"
	"errors"

	"jp/tools/proc"
)

var errStub = errors.New("not built yet")

// Decode reads a whole definition from a TOML table.
func Decode(name string, table map[string]any, pos func(key string) string) (Definition, error) {
	return Definition{}, errStub
}

// Overlay returns base with the keys of table changed.
func Overlay(base Definition, table map[string]any, pos func(key string) string) (Definition, error) {
	return Definition{}, errStub
}

// WithDefaults returns d with the keys of the '*' table where d gave none.
func (d Definition) WithDefaults(table map[string]any, pos func(key string) string) (Definition, error) {
	return d, errStub
}

// Enabled reports whether a table enables its tool.
func Enabled(table map[string]any) bool { return table["enable"] != false }

// LoadFile reads a definition file.
func LoadFile(path string) (Definition, error) { return Definition{}, errStub }

// LoadDir reads all *.toml files of a folder, by tool name; a missing folder is empty.
func LoadDir(dir string) (map[string]Definition, error) { return nil, errStub }

// Embedded returns the definition of a tool that jp brings along.
func Embedded(name string) (Definition, bool) { return Definition{}, false }

// EmbeddedNames are the names for Embedded, sorted.
func EmbeddedNames() []string { return nil }

// Validate checks arguments by the schema.
func (d Definition) Validate(args json.RawMessage) (json.RawMessage, error) { return args, errStub }

// CommandLine is the command of a local tool.
type CommandLine struct{}

// Runner runs processes; *proc.Host is one.
type Runner interface {
	Run(ctx context.Context, spec proc.Spec) (proc.Exit, error)
}

// CommandEnv is what local tools run in.
type CommandEnv struct {
	Host    Runner
	Dir     string         // the workspace: working directory
	Environ []string       // os.Environ() of jp, from which the tool's is built
	Context map[string]any // context.* of templates
	Secrets []string       // names of further variables that hold keys
	Notice  func(string)   // told what the user should know; nil = dropped
}

// Command returns the tool of a local definition.
func Command(def Definition, env CommandEnv) (Tool, error) { return Tool{}, errStub }

// FSEnv is what built-in tools work on.
type FSEnv struct {
	Workspace string   // absolute path of the folder that holds .jp
	Deny      []string // folders that no rule opens: the store
}

// Builtin returns the built-in tools of these definitions, or all as they are embedded if none is given.
func Builtin(env FSEnv, defs ...Definition) ([]Tool, error) { return nil, errStub }

// Policy decides by the definitions' run, result and detached keys.
type Policy struct{}

// NewPolicy makes the policy of one turn; p is nil when nobody can answer.
func NewPolicy(p Prompter) *Policy { return &Policy{} }

// Permit is the Permit of the policy.
func (p *Policy) Permit(ctx context.Context, t Tool, c Call) (Decision, error) {
	return Decision{}, errStub
}

// Deliver is the Executor.Deliver of the policy.
func (p *Policy) Deliver(ctx context.Context, t Tool, c Call, r Result) (Decision, error) {
	return Decision{}, errStub
}

// Template is a parsed template.
type Template struct{}

// ParseTemplate parses text.
func ParseTemplate(text string) (*Template, error) { return nil, errStub }

// Render renders.
func (t *Template) Render(data map[string]any) (string, error) { return "", errStub }

func parseSchema(raw json.RawMessage) (any, error) { return nil, errStub }
