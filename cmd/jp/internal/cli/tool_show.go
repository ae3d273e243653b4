package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/term"
	"jp/tools"
	"jp/tools/proc"
)

// toolDetail is a tool of an agent as `tool show` publishes it: what is said about it, and what comes of that here.
type toolDetail struct {
	toolShown
	Reaches    []string        `json:"reaches"`    // "ro PATH" or "rw PATH": access, or the default that holds without it
	Variables  []string        `json:"variables"`  // all that a local tool is let have, by name; a * ends a beginning of names
	Unenforced []string        `json:"unenforced"` // what of its sandbox this system cannot enforce
	Script     string          `json:"script"`     // the shell text of a local tool; "" = it has none
	ScriptFile string          `json:"script_file"`
	Schema     json.RawMessage `json:"schema"`
}

func newToolShowCommand(a *app) *cli.Command {
	var o toolOptions
	return a.command(spec{
		Name: "show", Paged: true, Summary: "show what a tool is and what it can do", Args: "TOOL",
		About: "What it runs, with the whole text of a script; the files, the network and the variables that it gets, defaults " +
			"included; what this system cannot enforce of its sandbox; under which conditions it runs; its description and its " +
			"arguments as JSON schema.",
		Flags: o.options(), Min: 1, Max: 1,
		Exits:    []Status{exitNotFound, exitBusy},
		Examples: []string{"jp tool show fs_read_file", "jp tool show fs_read_file -F json | jq .reaches"},
		Run: func(ctx context.Context, args []string) error {
			d, r, err := a.heldTool(ctx, o, args[0])
			if err != nil {
				return err
			}
			t := toolDetail{
				toolShown: showTool(d, r.Tools[d.Name].Pos("").String()), Schema: d.Schema,
				Reaches: []string{}, Variables: []string{}, Unenforced: []string{},
			}
			if len(t.Schema) == 0 {
				t.Schema = json.RawMessage("null")
			}
			for _, rule := range d.Reach() {
				t.Reaches = append(t.Reaches, string(rule.Mode)+" "+rule.Path)
			}
			if d.Local() {
				t.Variables = append(proc.ToolEnv(), d.Env...)
				slices.Sort(t.Variables)
				t.Variables = slices.Compact(t.Variables)
				t.Script, t.ScriptFile = d.Command.Script, d.Command.ScriptFile
				if d.Sandbox != tools.SandboxOff {
					box := proc.Confine{Network: d.Network == tools.NetworkAny}
					t.Unenforced = append(t.Unenforced, box.Missing(proc.Enforceable())...)
				}
				if c := a.trustedAlready(ctx); c != nil && r.Tools[d.Name].Values["command"] == nil {
					t.Defined = c.definedIn()[d.Name]
				}
			}
			if a.json() {
				return a.document(t)
			}
			return a.text(func(w *bufio.Writer) error { return a.writeTool(w, t) })
		},
	})
}

func (a *app) writeTool(w *bufio.Writer, t toolDetail) error {
	row := func(name, text string) { fmt.Fprintf(w, "%-9s  %s\n", name, term.Line(text)) }
	row("tool", t.Name)
	row("source", t.Source)
	row("enabled", a.relative(t.Origin))
	if t.Defined != "" {
		row("defined", t.Defined)
	}
	row("run", t.Run+pick(t.Run == string(tools.RunAsk), "; with nobody to ask: "+t.Detached, ""))
	row("result", t.Result)
	row("timeout", t.Timeout)
	row("parallel", fmt.Sprint(t.Parallel))
	for _, rule := range t.Reaches {
		row("access", rule+pick(len(t.Access) == 0, "  (the default)", ""))
	}
	if t.Command != "" {
		if len(t.Reaches) == 0 {
			row("access", "no files of yours")
		}
		if t.Script == "" {
			row("runs", t.Command)
		} else {
			row("runs", strings.Fields(t.Command)[0]+" "+or(t.ScriptFile, "the script below"))
		}
		if len(t.JP) > 0 {
			row("runs jp", strings.Join(t.JP, " ")+", for the conversation that calls it")
		}
		row("network", t.Network)
		switch {
		case t.Sandbox == string(tools.SandboxOff):
			row("sandbox", t.Sandbox+"; access and network are not enforced")
		case len(t.Unenforced) > 0:
			row("sandbox", t.Sandbox+"; this system cannot enforce "+strings.Join(t.Unenforced, ", "))
		default:
			row("sandbox", t.Sandbox)
		}
		row("variables", strings.Join(t.Variables, " "))
	}
	fmt.Fprintf(w, "\n%s\n", term.Clean(t.Description))
	if t.Script != "" {
		fmt.Fprintf(w, "\nscript:\n")
		for line := range strings.Lines(term.Clean(t.Script)) {
			fmt.Fprintf(w, "  %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	b, err := encodeJSON(t.Schema, true)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\narguments:\n%s", term.Clean(string(b)))
	return err
}
