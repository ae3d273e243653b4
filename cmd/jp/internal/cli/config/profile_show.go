package config

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/servers"
	"jp/cmd/jp/internal/wording"
	"jp/profiles"
	"jp/tools"
	"jp/tools/unseen"
)

// profileShown is the JSON form of a profile.
type profileShown struct {
	profiles.Profile
	SHA256   string           `json:"sha256"`
	Model    string           `json:"model"` // "" when the profile names none
	Tools    []run.ShownTool  `json:"tools"`
	Profiles []string         `json:"profiles"` // profiles that it may start
	Settings []profiles.Value `json:"settings"` // settings that it has
}

func newProfileShowCommand(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "show", Paged: true, Summary: "show what an agent under a profile is and can do", Args: "PROFILE",
		About: "PROFILE is what --cfg takes: a name, a path or builtin:NAME. jp resolves the profile " +
			"as for a sub-agent, on top of the program defaults and nothing else. Each value is " +
			"shown with the file and line that set it.",
		Min: 1, Max: 1,
		Exits:    []exit.Status{exit.NotFound},
		Examples: []string{"jp profile show agent/researcher"},
		Run:      func(ctx context.Context, args []string) error { return runProfileShow(ctx, g, args[0]) },
	})
}

func runProfileShow(ctx context.Context, g *Group, name string) error {
	src, files, err := g.Review.Sources(ctx)
	if err != nil {
		return err
	}
	p, err := profiles.Find(src, name)
	if err != nil {
		return err
	}
	r, defs, err := g.Review.Resolve(src, files, run.UnderNone(p.Arg))
	if err != nil {
		return err
	}
	for _, w := range r.Warnings {
		g.Con.Warn("%s", w)
	}
	ts := run.ShowTools(r, defs, g.Env.Servers.In(files))
	defined := files.DefinedIn()
	for i, t := range ts {
		if t.Command != "" && t.Origin == r.Tools[t.Name].Pos("command").String() {
			ts[i].Defined = defined[t.Name]
		}
	}
	s := profileShown{Profiles: append([]string{}, r.Config.Delegation.Profiles...), Profile: p, SHA256: r.ProfileHash, Model: strings.Join(r.Config.Assistant.Named(), ", "), Tools: ts, Settings: []profiles.Value{}}
	for _, v := range r.Keys() {
		if !v.Default && !v.Machine {
			s.Settings = append(s.Settings, v)
		}
	}
	if g.Con.JSON() {
		return g.Con.Document(s)
	}
	return g.Con.Text(func(w *bufio.Writer) error { return g.writeProfile(w, s) })
}

func (g *Group) writeProfile(w *bufio.Writer, s profileShown) error {
	fmt.Fprintf(w, "profile  %s (%s)\nfile     %s\nsha256   %s\nmodel    %s\n",
		unseen.Spell(s.Name), s.Source, unseen.Spell(s.Arg), s.SHA256, wording.Either(s.Model == "", "none", unseen.Spell(s.Model)))
	fmt.Fprintf(w, "\ntools:\n")
	if len(s.Tools) == 0 {
		fmt.Fprintf(w, "  none\n")
	}
	for _, t := range s.Tools {
		fmt.Fprintf(w, "  %s  %s, run %s, set at %s\n", t.Name, t.Source, t.Run, unseen.Spell(g.WS.Relative(t.Origin)))
		if t.Run == string(tools.RunAsk) {
			fmt.Fprintf(w, "    if nobody can be asked: %s\n", t.Detached)
		}
		for _, rule := range t.Access {
			fmt.Fprintf(w, "    access %s\n", unseen.Spell(rule))
		}
		if t.Sandbox == "" {
			continue
		}
		if t.Sandbox == string(tools.SandboxOff) {
			fmt.Fprintf(w, "    %s\n", servers.Unconfined)
		}
		if t.Command != "" {
			fmt.Fprintf(w, "    runs %s\n", unseen.Spell(t.Command))
		}
		if len(t.JP) > 0 {
			fmt.Fprintf(w, "    runs jp %s, for the conversation that calls it\n", strings.Join(t.JP, " "))
		}
		fmt.Fprintf(w, "    network %s, sandbox %s, timeout %s, variables %s\n", t.Network, t.Sandbox, t.Timeout, cmp.Or(strings.Join(t.Env, " "), "none"))
		if t.Defined != "" {
			fmt.Fprintf(w, "    defined in %s\n", unseen.Spell(t.Defined))
		}
	}
	if len(s.Profiles) > 0 {
		fmt.Fprintf(w, "\nmay start: %s\n", unseen.Spell(strings.Join(s.Profiles, ", ")))
	}
	fmt.Fprintf(w, "\nsettings:\n")
	for _, v := range s.Settings {
		g.writeValue(w, v)
	}
	return nil
}
