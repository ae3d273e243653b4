package config

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
	"jp/cmd/jp/internal/workspace"
	"jp/profiles"
	"jp/profiles/tomldoc"
	"jp/tools"
)

// keyExplained is the JSON form of one key.
type keyExplained struct {
	Key     string       `json:"key"`
	Kind    string       `json:"kind"` // type of its values; "" for a table of keys
	Doc     string       `json:"doc"`
	Default any          `json:"default"` // null for none
	Value   any          `json:"value"`   // effective value; null for a table
	Machine bool         `json:"machine"`
	Layers  []layerValue `json:"layers"` // layers that set it, in the order in which they are read
}

// layerValue is the value of a key in one layer.
type layerValue struct {
	profiles.Origin
	State string `json:"state"` // holds (in use), covered (a later layer sets it), dropped (by a reset or the stored config)
}

func newExplainCommand(g *Group) *cli.Command {
	var o configOptions
	return g.Tree.Command(command.Spec{
		Name: "explain", Paged: true, Summary: "show what a setting means and every place that sets it", Args: "[KEY]", Max: 1,
		About: "Without KEY it lists all settings, one a line: key, type of its values, default, " +
			"meaning. If KEY is a table, the settings below it are listed too.\n\n" +
			"With KEY it shows what KEY means. Then a line follows for each file, variable and " +
			"flag that sets it, in the order in which they are read. The line says whether the " +
			"value is in use, replaced by a later one, or dropped by a reset; and it shows the " +
			"value and where it is.",
		Flags: append([]*command.Option{
			command.String(&o.id, "id", "TARGET", "explain the config of this conversation").Alias("i"),
		}, workspace.ConfigFlags(&o.directives)...),
		Exits:    []exit.Status{exit.NotFound, exit.Busy, exit.Refused},
		Examples: []string{"jp config explain", "jp config explain delegation", "jp config explain assistant.model", "jp config explain conversation.tools --cfg agent/researcher"},
		Run:      func(ctx context.Context, args []string) error { return runExplain(ctx, g, o, args) },
	})
}

func runExplain(ctx context.Context, g *Group, o configOptions, args []string) error {
	if len(args) == 0 {
		return g.writeSettings(settings())
	}
	s, err := describe(args[0])
	if err != nil {
		return err
	}
	r, err := g.WS.ConfigOf(ctx, o.id, o.directives)
	if err != nil {
		return err
	}
	e := explained(r, s)
	if g.Con.JSON() {
		return g.Con.Document(e)
	}
	if err := g.Con.Text(func(w *bufio.Writer) error { return g.writeExplained(w, e) }); err != nil {
		return err
	}
	below := below(s.Key)
	if len(below) == 0 {
		return nil
	}
	if _, err := io.WriteString(g.Con.IO.Out, "\n"); err != nil {
		return err
	}
	return g.writeSettings(below)
}

// settings lists every key, those of a tool included.
func settings() []profiles.Setting {
	list := profiles.Settings()
	for _, k := range tools.Keys() {
		list = append(list, profiles.Setting{Key: "conversation.tools.<name>." + k.Name, Kind: k.Kind, Default: k.Default, Doc: k.Doc})
	}
	slices.SortFunc(list, func(a, b profiles.Setting) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// describe is [profiles.Describe], and explains a key of a tool. Its default is in the text, because
// the definition of the tool and '*' may have another one.
func describe(key string) (profiles.Setting, error) {
	s, err := profiles.Describe(key)
	parts, _ := tomldoc.SplitKey(s.Key)
	if err != nil || len(parts) < 4 || parts[0] != "conversation" || parts[1] != "tools" {
		return s, err
	}
	rest := strings.Join(parts[3:], ".")
	var names []string
	for _, k := range tools.Keys() {
		if parts[2] == "*" && !k.ForAll() {
			continue
		}
		names = append(names, k.Name)
		switch {
		case rest == k.Name:
			if s.Kind, s.Doc = k.Kind, k.Doc; k.Default != nil {
				def, err := console.EncodeJSON(k.Default, false)
				s.Doc += "; " + strings.TrimSuffix(string(def), "\n") + " if " +
					wording.Either(k.ForAll(), "neither the definition of the tool nor '*' has it", "the definition of the tool does not have it")
				return s, err
			}
			return s, nil
		case strings.HasPrefix(rest, k.Name+".") && strings.HasSuffix(k.Kind, "a table"):
			s.Doc = "a key of " + k.Name + ": " + k.Doc
			return s, nil
		case strings.HasPrefix(k.Name, rest+"."):
			s.Doc = ""
			return s, nil
		}
	}
	return s, exit.Usagef("%s: unknown key", s.Key).WithHint("the keys of a tool are %s", strings.Join(names, ", "))
}

// below lists the settings below a table, also where its key has the name that somebody gave it.
func below(key string) (list []profiles.Setting) {
	given, _ := tomldoc.SplitKey(key)
	for _, s := range settings() {
		parts := strings.Split(s.Key, ".")
		if len(parts) <= len(given) {
			continue
		}
		named := false
		for i, g := range given {
			if named = named || parts[i] != g; parts[i] != g && parts[i][0] != '<' {
				parts = nil
				break
			}
		}
		if parts == nil {
			continue
		}
		s.Key = key + "." + strings.Join(parts[len(given):], ".")
		// A table of a name of its own, such as aliases, is none of those that have any name.
		if d, err := describe(strings.NewReplacer("<", "", ">", "").Replace(s.Key)); !named || err == nil && strings.HasPrefix(d.Doc, s.Doc) {
			list = append(list, s)
		}
	}
	return list
}

// writeSettings lists settings with their defaults, not with the values of this workspace.
func (g *Group) writeSettings(list []profiles.Setting) error {
	if g.Con.JSON() {
		return g.Con.Document(list)
	}
	rows := make([][]string, len(list))
	for i, s := range list {
		def := "-"
		if s.Default != nil {
			b, err := console.EncodeJSON(s.Default, false)
			if err != nil {
				return err
			}
			def = strings.TrimSuffix(string(b), "\n")
		}
		rows[i] = []string{s.Key, s.Kind, def, s.Doc + wording.Either(s.Machine, " (only your own config.toml, the environment and flags)", "")}
	}
	if width := g.Con.IO.Width; g.Con.Pretty() && width > 0 && width < 60 { // too narrow for columns
		return g.Con.Text(func(w *bufio.Writer) error {
			for _, r := range rows {
				fmt.Fprintln(w, r[0])
				g.Con.Field(w, "    ", r[3], 4)
			}
			return nil
		})
	}
	return g.Con.Table([]term.Column{{Title: "key"}, {Title: "values", Drop: 1}, {Title: "default", Drop: 2}, {Title: "meaning", Flex: true}}, rows)
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
		case l.Value == nil: // keys below it: tables are merged
			l.State = "holds"
		case !held:
			l.State, held, e.Value = "holds", true, l.Value
		}
	}
	return e
}

func (g *Group) writeExplained(w *bufio.Writer, e keyExplained) error {
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
		b, err := console.EncodeJSON(v, false)
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
		line(fmt.Sprintf("%-7s  default  %s", wording.Either(set, "covered", "holds"), text(e.Default)))
	} else if !set {
		line("not set")
	}
	for _, l := range e.Layers {
		line(fmt.Sprintf("%-7s  %s  %s  # %s", l.State, l.Kind, text(l.Value), g.WS.Relative(l.Position.String())))
	}
	return nil
}
