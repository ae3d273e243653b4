package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"jp/tools/fs"
)

// Authority returns a digest of what a call can do to the machine: the source, the program with its
// arguments and variables, the tool of which MCP server as it was approved, and what it may reach.
// Two definitions of one name with the same authority differ only in words, limits and permissions.
// With different authority they are different tools, whatever they are called.
func (d Definition) Authority() string {
	type local struct {
		Command CommandLine
		Schema  json.RawMessage // a looser one lets other arguments through
		Dash    map[string]bool
		Env     []string
		Network Network
		Sandbox Sandbox
		Options map[string]any // options that may be part of the arguments
		Stdin   Stdin          // what a model says reaches the program there too
	}
	v := struct {
		Source string
		Remote string `json:",omitempty"`
		Pin    string `json:",omitempty"`
		FS     []fs.Rule
		JP     []Verb `json:",omitempty"`
		Local  *local `json:",omitempty"`
	}{Source: d.Source, Remote: d.Remote, Pin: d.Pin, FS: d.Access.FS, JP: d.Access.JP}
	if d.Local() {
		l := local{
			Command: d.Command, Schema: d.Schema, Dash: d.dash, Env: slices.Sorted(slices.Values(d.Env)),
			Network: d.Network, Sandbox: d.Sandbox, Options: d.Options, Stdin: d.Stdin,
		}
		l.Command.ScriptFile = "" // its text counts, not its name
		v.Local = &l
	}
	b, err := json.Marshal(v)
	if err != nil { // options that JSON cannot hold: they are never the same as any others
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}
