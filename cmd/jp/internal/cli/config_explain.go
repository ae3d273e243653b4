package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/term"
	"jp/profiles"
)

// keyExplained is one key as `config explain` publishes it.
type keyExplained struct {
	Key     string       `json:"key"`
	Kind    string       `json:"kind"` // what its values are; "" for a table of keys
	Doc     string       `json:"doc"`
	Default any          `json:"default"` // null = none
	Value   any          `json:"value"`   // what holds; of a table, nothing
	Machine bool         `json:"machine"`
	Layers  []layerValue `json:"layers"` // all that say something about it, in the order in which they are read
}

// layerValue is what one layer says about a key.
type layerValue struct {
	profiles.Origin
	State string `json:"state"` // holds, covered (a later one says otherwise), dropped (a reset or the stored config took it out)
}

func newConfigExplainCommand(a *app) *cli.Command {
	var o configOptions
	return a.command(spec{
		Name: "explain", Paged: true, Summary: "show every layer that says something about a setting", Args: "KEY", Min: 1, Max: 1,
		About: "What the key means, and a line for each file, variable and flag that gives it, in the order in which they are " +
			"read: whether it holds, is covered by a later one or was dropped by a reset; its value; its place.",
		Flags: append([]*option{
			stringFlag(&o.id, "id", "TARGET", "in the config of this conversation").alias("i"),
		}, configFlags(&o.directives)...),
		Exits:    []Status{exitNotFound, exitBusy, exitRefused},
		Examples: []string{"jp config explain assistant.model", "jp config explain conversation.tools --cfg agent/researcher"},
		Run: func(ctx context.Context, args []string) error {
			s, err := profiles.Describe(args[0])
			if err != nil {
				return err
			}
			r, err := a.configOf(ctx, o.id, o.directives)
			if err != nil {
				return err
			}
			e := explained(r, s)
			if a.json() {
				return a.document(e)
			}
			return a.text(func(w *bufio.Writer) error { return a.writeExplained(w, e) })
		},
	})
}

func explained(r *profiles.Resolved, s profiles.Setting) keyExplained {
	e := keyExplained{Key: s.Key, Kind: s.Kind, Doc: s.Doc, Default: s.Default, Machine: s.Machine, Value: s.Default, Layers: []layerValue{}}
	for _, o := range r.Origin(s.Key) {
		e.Layers = append(e.Layers, layerValue{o, "covered"})
	}
	held := false
	for i := len(e.Layers) - 1; i >= 0; i-- {
		switch l := &e.Layers[i]; {
		case l.Dropped:
			l.State = "dropped"
		case l.Value == nil: // keys below it: tables are put together
			l.State = "holds"
		case !held:
			l.State, held, e.Value = "holds", true, l.Value
		}
	}
	return e
}

func (a *app) writeExplained(w *bufio.Writer, e keyExplained) error {
	line := func(text string) { fmt.Fprintln(w, term.Line(text)) }
	about := e.Key
	if e.Kind != "" {
		about += ": " + e.Kind
	}
	if e.Machine {
		about += "; only in your own config.toml, the environment and flags"
	}
	line(about)
	if e.Doc != "" {
		line(e.Doc)
	}
	text := func(v any) string {
		if v == nil {
			return "keys below it"
		}
		b, err := encodeJSON(v, false)
		if err != nil {
			return err.Error()
		}
		return strings.TrimSuffix(string(b), "\n")
	}
	fmt.Fprintln(w)
	set := false
	for _, l := range e.Layers {
		set = set || l.State == "holds"
	}
	if e.Default != nil {
		line(fmt.Sprintf("%-7s  default  %s", pick(set, "covered", "holds"), text(e.Default)))
	} else if !set {
		line("not set")
	}
	for _, l := range e.Layers {
		line(fmt.Sprintf("%-7s  %s  %s  # %s", l.State, l.Kind, text(l.Value), a.relative(l.Position.String())))
	}
	return nil
}
