package tools

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"jp/tools/fs"
	"jp/tools/schema"
)

// Sources of tools. A tool of an MCP server has the source "mcp.<server>".
const (
	SourceBuiltin      = "builtin"      // in Go, in this package
	SourceLocal        = "local"        // a command of the user's
	SourceDelegation   = "delegation"   // starts sub-agents, or is a command that runs jp
	SourceConversation = "conversation" // reads the caller's sub-conversations
	SourceInteractive  = "interactive"  // asks the person

	sourceMCP = "mcp."
)

// RunMode says whether a call needs leave before it runs.
type RunMode string

// The run modes; "" counts as RunAsk.
const (
	RunAsk        RunMode = "ask"
	RunUnattended RunMode = "unattended"
	RunDeny       RunMode = "deny"
)

// ResultMode says whether a result needs leave before the model sees it.
type ResultMode string

// The result modes; "" counts as ResultUnattended.
const (
	ResultAsk        ResultMode = "ask"
	ResultUnattended ResultMode = "unattended"
)

// DetachedMode says what happens to a question when nobody can answer it.
type DetachedMode string

// The detached modes; "" counts as DetachedDeny. DetachedDefaults takes the
// question's own default and is a denial where it has none, as leave to run or
// to deliver never has.
const (
	DetachedDeny     DetachedMode = "deny"
	DetachedAuto     DetachedMode = "auto"
	DetachedDefaults DetachedMode = "defaults"
)

// Detached is the policy per kind of question: leave to run, leave to deliver
// the result, a question of the tool itself.
type Detached struct {
	Run     DetachedMode
	Deliver DetachedMode
	Tool    DetachedMode
}

// Access is what a tool may reach. A nil FS is the default of the tool: the
// workspace, read-only, or read-write for the built-in tools that write.
type Access struct {
	FS []fs.Rule
	JP []Verb // what a local tool may run jp for, sorted; none = jp refuses to run in it
}

// Verb is a command of jp that a local tool may run.
type Verb string

// The verbs. All but VerbQuery are those of jp conversation.
const (
	VerbFork  Verb = "fork"
	VerbGrep  Verb = "grep"
	VerbLs    Verb = "ls"
	VerbPrint Verb = "print"
	VerbQuery Verb = "query"
)

// Network says what network a tool may use.
type Network string

// The network modes; "" counts as NetworkNone.
const (
	NetworkNone Network = "none"
	NetworkAny  Network = "any"
)

// Sandbox says how much confinement a local tool must have.
type Sandbox string

// The sandbox modes; "" counts as SandboxAuto.
const (
	SandboxAuto    Sandbox = "auto"
	SandboxRequire Sandbox = "require"
	SandboxOff     Sandbox = "off"
)

// Stdin says what a local tool reads.
type Stdin string

// The stdin modes; "" counts as StdinNone, which is /dev/null. StdinJSON is
// one JSON object {"tool":{"name","arguments","options"},"context":{...}}.
const (
	StdinNone Stdin = "none"
	StdinJSON Stdin = "json"
)

// Output says how the stdout of a local tool is read.
type Output string

// The output modes; "" counts as OutputText. OutputJSON is the typed envelope
// {"type":"success"|"error"|"needs_input", ...}.
const (
	OutputText Output = "text"
	OutputJSON Output = "json"
)

// Defaults of a definition.
const (
	DefaultTimeout       = 60 * time.Second
	DefaultSizeThreshold = 256_000 // bytes
)

// Definition is all that is said about a tool except what runs it. It is a
// value; its slices, maps and Schema are never changed after it was made, and
// must not be by others.
//
// [Decode], [DecodeFiles] and [Embedded] make complete ones. In one made by hand,
// note that a zero Parallel means alone, a zero Timeout no limit and a zero
// SizeThreshold the default.
type Definition struct {
	Name string
	// Source is what roles, grants and limits go by. That of a command with
	// Access.JP is SourceDelegation, though its definition says "local": see
	// Local and Declared.
	Source string
	// Remote is the name of the tool at its MCP server, where Source is that of one. Pin stands for the server and for the
	// tool as a person approved them; "" = nobody has yet. Whoever knows fills in Pin and Schema: see Pinned.
	Remote, Pin string
	Description string          // for the model
	Schema      json.RawMessage // of the arguments, type object; nil = no arguments
	Command     CommandLine     // of a local tool
	Run         RunMode
	Result      ResultMode
	Detached    Detached
	Timeout     time.Duration // of one call, from its start; 0 = none
	// SizeThreshold is the most bytes of a result.
	SizeThreshold int
	Parallel      bool     // may run beside other calls of its batch
	Env           []string // variables let through beyond the usual ones
	Access        Access
	Network       Network
	Sandbox       Sandbox
	Stdin         Stdin
	Output        Output
	Options       map[string]any // free-form, for templates: tool.options.*

	dash map[string]bool // parameters whose values may start with '-'
	set  map[string]bool // keys that a definition or table gave, for WithDefaults
}

// DefinitionError is a definition that cannot be used.
type DefinitionError struct {
	Pos  string // "file:line" where known
	Tool string
	Key  string // dotted, inside the tool's table; "" = the tool itself
	Msg  string
	Hint string // what to try; may be empty
}

// Error is "pos: tool name: key: message".
func (e *DefinitionError) Error() string {
	var b strings.Builder
	if e.Pos != "" {
		b.WriteString(e.Pos + ": ")
	}
	fmt.Fprintf(&b, "tool %s: ", e.Tool)
	if e.Key != "" {
		b.WriteString(e.Key + ": ")
	}
	b.WriteString(e.Msg)
	return b.String()
}

// WithEnum returns a copy of d whose string parameter takes only these values,
// in this order. It is for enumerations known only at run time. A parameter of
// the items of an array is named like queries.config. It fails when the schema
// has no such property; an empty list leaves no valid value.
func (d Definition) WithEnum(param string, values []string) (Definition, error) {
	if values == nil {
		values = []string{}
	}
	raw, err := schema.WithEnum(d.Schema, strings.Split(param, "."), values)
	if err != nil {
		return d, fmt.Errorf("tool %s: parameter %q: %w", d.Name, param, err)
	}
	d.Schema = raw
	return d, nil
}

// Reach returns the rules that hold for the tool's files: those of access.fs, else its default. It is empty
// for a tool that touches none.
func (d Definition) Reach() []fs.Rule {
	fallback := fs.ReadOnly
	switch d.Declared() {
	case SourceLocal:
	case SourceBuiltin:
		_, fallback = fs.Tool(d.Name)
	default:
		return nil
	}
	if d.Access.FS == nil {
		return []fs.Rule{{Path: ".", Mode: fallback}}
	}
	return d.Access.FS
}

// MCP returns the server of a tool that is one of an MCP server.
func (d Definition) MCP() (server string, ok bool) { return strings.CutPrefix(d.Source, sourceMCP) }

// Pinned returns d as it was approved: with the schema of its arguments, and the server's description where d has none of its
// own. It fails when the schema cannot be used.
func (d Definition) Pinned(pin, description string, raw json.RawMessage) (Definition, error) {
	if _, err := schema.Parse(raw); err != nil {
		return d, &DefinitionError{Tool: d.Name, Msg: "the schema that its server gives it cannot be used: " + err.Error()}
	}
	d.Pin, d.Schema = pin, raw
	if d.Description == "" {
		d.Description = description
	}
	return d, nil
}

// Local reports whether a command of the user's runs the tool, whatever its Source counts as.
func (d Definition) Local() bool { return d.Source == SourceLocal || !d.Command.IsZero() }

// Declared is the source as a definition spells it.
func (d Definition) Declared() string {
	if d.Local() {
		return SourceLocal
	}
	if _, ok := d.MCP(); ok && d.Remote != d.Name {
		return d.Source + "." + d.Remote
	}
	return d.Source
}

// SizeLimit is the bound of a result in bytes.
func (d Definition) SizeLimit() int {
	if d.SizeThreshold > 0 {
		return d.SizeThreshold
	}
	return DefaultSizeThreshold
}

// withSet returns a copy of d that remembers key as given.
func (d Definition) withSet(key string) Definition {
	d.set = maps.Clone(d.set)
	if d.set == nil {
		d.set = map[string]bool{}
	}
	d.set[key] = true
	return d
}
