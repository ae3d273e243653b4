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
	SourceLocal        = "local"        // a command of the user
	SourceDelegation   = "delegation"   // starts sub-agents, or is a command that runs jp
	SourceConversation = "conversation" // reads the caller's sub-conversations
	SourceInteractive  = "interactive"  // asks the person

	sourceMCP = "mcp."
)

// RunMode says whether a call needs permission before it runs.
type RunMode string

// The run modes; "" counts as RunAsk.
const (
	RunAsk        RunMode = "ask"
	RunUnattended RunMode = "unattended"
	RunDeny       RunMode = "deny"
)

// ResultMode says whether a result needs permission before the model sees it.
type ResultMode string

// The result modes; "" counts as ResultUnattended.
const (
	ResultAsk        ResultMode = "ask"
	ResultUnattended ResultMode = "unattended"
)

// DetachedMode says what happens to a question when nobody can answer it.
type DetachedMode string

// The detached modes; "" counts as DetachedDeny. DetachedDefaults takes the default of the
// question. A question without one is denied, and permissions to run and to deliver have none.
const (
	DetachedDeny     DetachedMode = "deny"
	DetachedAuto     DetachedMode = "auto"
	DetachedDefaults DetachedMode = "defaults"
)

// Detached is the policy for each kind of question: permission to run, permission to deliver the
// result, a question of the tool itself.
type Detached struct {
	Run     DetachedMode
	Deliver DetachedMode
	Tool    DetachedMode
}

// Access is what a tool may reach. A nil FS is the default of the tool: the workspace, read-only,
// or read-write for the built-in tools that write.
type Access struct {
	FS []fs.Rule
	JP []Verb // commands of jp that a local tool may run, sorted; none = jp refuses to run in it
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

// The stdin modes; "" counts as StdinNone, which is /dev/null. StdinJSON is one JSON object
// {"tool":{"name","arguments","options"},"context":{...}}.
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

// Definition is all that is said about a tool except what runs it. It is a value. Its slices, maps
// and Schema are never changed after it was made, and others must not change them.
//
// [Decode], [DecodeFiles] and [Embedded] make complete ones. In one made by hand, a zero Parallel
// means that the tool runs alone, a zero Timeout no limit and a zero SizeThreshold the default.
type Definition struct {
	Name string
	// Source is what roles, grants and limits look at. That of a command with Access.JP is
	// SourceDelegation, though its definition says "local": see Local and Declared.
	Source string
	// Remote is the name that the tool has at its MCP server, when Source is such a server. Pin
	// identifies the server and the tool as a person approved them; "" = nobody has approved them
	// yet. Pin and Schema are filled in by the program that knows the approvals: see Pinned.
	Remote, Pin string
	Description string          // for the model
	Schema      json.RawMessage // of the arguments, type object; nil = no arguments
	Command     CommandLine     // of a local tool
	Run         RunMode
	Result      ResultMode
	Detached    Detached
	Timeout     time.Duration // of one call, from its start; 0 = none
	// SizeThreshold is the largest result in bytes.
	SizeThreshold int
	Parallel      bool     // whether it may run beside other calls of its batch
	Env           []string // names of variables that the tool gets beyond the usual ones
	Access        Access
	Network       Network
	Sandbox       Sandbox
	Stdin         Stdin
	Output        Output
	Options       map[string]any // free-form, for templates: tool.options.*

	dash map[string]bool // parameters whose values may start with '-'
	set  map[string]bool // keys that a definition or table has set, for WithDefaults
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

// isMissing is the message about a key that a whole definition has to have.
const isMissing = "is missing"

// Lacks reports whether the error is only that a table is no whole definition.
func (e *DefinitionError) Lacks() bool { return e.Msg == isMissing }

// WithEnum returns a copy of d whose string parameter takes only these values, in this order: for
// an enumeration that is known only at run time. A parameter of the items of an array is named like
// queries.config. It fails when the schema has no such property. An empty list leaves no valid
// value.
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

// Reach returns the rules for the files of the tool: those of access.fs, or its default without
// them. It is empty for a tool that touches no files.
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

// MCP returns the MCP server of the tool; false when the tool is of none.
func (d Definition) MCP() (server string, ok bool) { return strings.CutPrefix(d.Source, sourceMCP) }

// Pinned returns d as it was approved: with the schema of its arguments, and with the description
// of the server if d has none of its own. It fails when the schema cannot be used.
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

// Local reports whether a command of the user runs the tool, whatever its Source is.
func (d Definition) Local() bool { return d.Source == SourceLocal || !d.Command.IsZero() }

// Delegates reports whether the tool itself starts sub-agents and waits for them, as jp_query does.
// A command that runs jp is a process of its own and does not count.
func (d Definition) Delegates() bool { return d.Source == SourceDelegation && !d.Local() }

// Declared returns the source as a definition spells it.
func (d Definition) Declared() string {
	if d.Local() {
		return SourceLocal
	}
	if _, ok := d.MCP(); ok && d.Remote != d.Name {
		return d.Source + "." + d.Remote
	}
	return d.Source
}

// SizeLimit returns the bound of a result in bytes.
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
