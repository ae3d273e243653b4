package config

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/servers"
	"jp/cmd/jp/internal/wording"
	"jp/tools"
	"jp/tools/proc"
	"jp/tools/unseen"
)

// toolDetail is the JSON form of a tool: its definition, and what it can reach on this machine.
type toolDetail struct {
	enabled.ShownTool
	Reaches    []string        `json:"reaches"`    // "ro PATH" or "rw PATH": its access, or the default access
	Variables  []string        `json:"variables"`  // names of all variables that a local tool gets; a * at the end matches any rest
	Unenforced []string        `json:"unenforced"` // parts of its sandbox that this system cannot enforce
	Script     string          `json:"script"`     // shell text of a local tool; "" = none
	ScriptFile string          `json:"script_file"`
	Schema     json.RawMessage `json:"schema"`

	reach servers.Reach
}

func newToolShowCommand(g *Group) *cli.Command {
	var o toolOptions
	return g.Tree.Command(command.Spec{
		Name: "show", Paged: true, Summary: "show what a tool is and what it can do", Args: "TOOL",
		About: "Shows what the tool runs, with the whole text of a script; the files, the network " +
			"and the variables that it gets, with defaults; what of its sandbox this system " +
			"cannot enforce; when it asks before it runs; its description, and its arguments as a " +
			"JSON schema.",
		Flags: o.options(), Min: 1, Max: 1,
		Exits:    []exit.Status{exit.NotFound, exit.Busy, exit.Refused},
		Examples: []string{"jp tool show fs_read_file", "jp tool show fs_read_file -F json | jq .reaches"},
		Run:      func(ctx context.Context, args []string) error { return runToolShow(ctx, g, o, args[0]) },
	})
}

func runToolShow(ctx context.Context, g *Group, o toolOptions, name string) error {
	d, r, err := g.heldTool(ctx, o, name)
	if err != nil {
		return err
	}
	known := g.Env.Servers.Known(ctx)
	reach := servers.ReachOfTool(d, known)
	t := toolDetail{
		ShownTool: enabled.ShowTool(d, r.Tools[d.Name].Pos("").String(), known), Schema: d.Schema,
		Reaches: reach.Access, Variables: []string{}, Unenforced: reach.Unenforced, reach: reach,
	}
	if len(t.Schema) == 0 {
		t.Schema = json.RawMessage("null")
	}
	if d.Local() {
		t.Variables = append(proc.ToolEnv(), d.Env...)
		slices.Sort(t.Variables)
		t.Variables = slices.Compact(t.Variables)
		t.Script, t.ScriptFile = d.Command.Script, d.Command.ScriptFile
		if c := g.WS.Gate.PassUnasked(ctx); c != nil && r.Tools[d.Name].Values["command"] == nil {
			t.Defined = c.DefinedIn()[d.Name]
		}
	}
	if g.Con.JSON() {
		return g.Con.Document(t)
	}
	var b strings.Builder
	if err := g.writeTool(&b, t); err != nil {
		return err
	}
	return g.Con.LaidOut(b.String())
}

func (g *Group) writeTool(w *strings.Builder, t toolDetail) error {
	row := func(name, text string) { fmt.Fprintf(w, "%-9s  %s\n", name, unseen.Spell(text)) }
	row("tool", t.Name)
	row("source", t.Source)
	row("enabled", g.WS.Relative(t.Origin))
	if t.Defined != "" {
		row("defined", t.Defined)
	}
	row("run", t.Run+wording.Either(t.Run == string(tools.RunAsk), "; if nobody can be asked: "+t.Detached, ""))
	row("result", t.Result)
	row("timeout", t.Timeout)
	row("parallel", fmt.Sprint(t.Parallel))
	for _, rule := range t.Reaches {
		row("access", rule+wording.Either(len(t.Access) == 0, "  (the default)", ""))
	}
	if t.Sandbox != "" && len(t.Reaches) == 0 {
		row("access", servers.NoFiles)
	}
	if t.Command != "" {
		if t.Script == "" {
			row("runs", t.Command)
		} else {
			row("runs", strings.Fields(t.Command)[0]+" "+cmp.Or(t.ScriptFile, "the script below"))
		}
		if len(t.JP) > 0 {
			row("runs jp", strings.Join(t.JP, " ")+", for the conversation that calls it")
		}
	}
	if t.Sandbox != "" {
		row("network", t.Network)
		row("sandbox", t.reach.SandboxText())
	}
	if variables := wording.Either(t.Command != "", t.Variables, t.Env); len(variables) > 0 {
		row("variables", strings.Join(variables, " "))
	}
	fmt.Fprintf(w, "\n%s\n", spelled(t.Description, "  ")) // it is not ours, and could look like a row
	if t.Script != "" {
		fmt.Fprintf(w, "\nscript:\n%s\n", spelled(strings.TrimSuffix(t.Script, "\n"), "  "))
	}
	b, err := console.EncodeJSON(t.Schema, true)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\narguments:\n%s", spelled(string(b), ""))
	return err
}

// spelled returns a text with every character visible and each line that is not empty indented.
func spelled(text, indent string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		parts := strings.Split(line, "\t")
		for k := range parts {
			parts[k] = unseen.Spell(parts[k])
		}
		lines[i] = wording.Either(line == "", "", indent) + strings.Join(parts, "\t")
	}
	return strings.Join(lines, "\n")
}
