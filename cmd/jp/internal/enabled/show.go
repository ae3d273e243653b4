package enabled

import (
	"cmp"
	"strconv"
	"strings"

	"jp/cmd/jp/internal/servers"
	"jp/cmd/jp/internal/wording"
	"jp/profiles"
	"jp/tools"
	"jp/tools/unseen"
)

// ShownTool is a tool of an agent as `tool ls` and `profile show` publish it.
type ShownTool struct {
	Name        string   `json:"name"`
	Source      string   `json:"source"`
	Run         string   `json:"run"`
	Result      string   `json:"result"`
	Timeout     string   `json:"timeout"`
	Parallel    bool     `json:"parallel"`
	Network     string   `json:"network"` // network that it reaches: none or any
	Access      []string `json:"access"`  // "ro PATH" or "rw PATH", "rw /" where nothing confines it; empty = the tool's default
	Description string   `json:"description"`
	Origin      string   `json:"origin"`       // place where the config enables it
	Command     string   `json:"command"`      // command of a local tool
	Env         []string `json:"env"`          // variables it gets beside the usual ones
	Sandbox     string   `json:"sandbox"`      // sandbox of a program: auto, require, or off (it runs unconfined); "" = no program
	Detached    string   `json:"detached"`     // answer to a call that asks when nobody can be asked
	JP          []string `json:"jp,omitempty"` // verbs of jp that it may run
	Defined     string   `json:"defined"`      // file of .jp/tools that defines it; "" = jp, or the config itself
}

// ShowTools returns the published form of defs, which a config enables.
func ShowTools(r *profiles.Resolved, defs []tools.Definition, known map[string]servers.Server) []ShownTool {
	out := make([]ShownTool, 0, len(defs))
	for _, d := range defs {
		t := r.Tools[d.Name]
		out = append(out, ShowTool(d, t.Pos("").String(), known))
	}
	return out
}

// ShowTool returns the published form of a tool; origin is the place where the config enables it.
func ShowTool(d tools.Definition, origin string, known map[string]servers.Server) ShownTool {
	reach := servers.ReachOfTool(d, known)
	s := ShownTool{
		Name: d.Name, Source: wording.Either(d.Remote == "", d.Source, d.Declared()), Run: cmp.Or(string(d.Run), string(tools.RunAsk)), Result: cmp.Or(string(d.Result), string(tools.ResultUnattended)),
		Timeout: wording.Either(d.Timeout == 0, "none", d.Timeout.String()), Parallel: d.Parallel, Network: reach.Network,
		Access: []string{}, Description: strings.TrimSpace(d.Description), Origin: origin,
		Command: commandText(d.Command), Env: reach.Env, Sandbox: reach.Sandbox,
		Detached: cmp.Or(string(d.Detached.Run), string(tools.DetachedDeny)),
	}
	if len(d.Access.FS) > 0 || reach.Off() || !d.Local() && reach.Sandbox != "" {
		s.Access = reach.Access
	}
	for _, verb := range d.Access.JP {
		s.JP = append(s.JP, string(verb))
	}
	return s
}

// commandText returns a command as its author wrote it.
func commandText(c tools.CommandLine) string {
	switch {
	case c.Text != "" || c.IsZero():
		return c.Text
	case c.ScriptFile != "":
		return c.Program + " .jp/tools/" + c.ScriptFile
	case c.Script != "":
		return c.Program + " -c " + strconv.Quote(c.Script)
	}
	words := []string{unseen.Word(c.Program)}
	for _, arg := range c.Args {
		words = append(words, unseen.Word(arg))
	}
	return strings.Join(words, " ")
}
