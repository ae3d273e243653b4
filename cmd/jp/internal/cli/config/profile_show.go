package config

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/servers"
	"jp/cmd/jp/internal/wording"
	"jp/cmd/jp/internal/workspace"
	"jp/profiles"
	"jp/tools"
	"jp/tools/unseen"
)

// profileShown is the JSON form of a profile.
type profileShown struct {
	profiles.Profile
	SHA256   string              `json:"sha256"`
	Model    string              `json:"model"` // "" when the profile names none
	Tools    []enabled.ShownTool `json:"tools"`
	Profiles []string            `json:"profiles"` // profiles that it may start
	Settings []profiles.Value    `json:"settings"` // settings that it has
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
	r, defs, err := g.Review.Resolve(src, files, workspace.UnderNone(p.Arg))
	if err != nil {
		return err
	}
	for _, w := range r.Warnings {
		g.Con.Warn("%s", w)
	}
	ts := enabled.ShowTools(r, defs, g.Env.Servers.In(files))
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
	row := func(name, text string) { g.Con.Field(w, fmt.Sprintf("%-7s  ", name), text, 9) }
	row("profile", fmt.Sprintf("%s (%s)", unseen.Spell(s.Name), s.Source))
	row("file", unseen.Spell(s.Arg))
	row("sha256", s.SHA256)
	row("model", wording.Either(s.Model == "", "none", unseen.Spell(s.Model)))
	fmt.Fprintf(w, "\ntools:\n")
	if len(s.Tools) == 0 {
		fmt.Fprintf(w, "  none\n")
	}
	for _, t := range s.Tools {
		more := func(format string, args ...any) { g.Con.Field(w, "    ", fmt.Sprintf(format, args...), 6) }
		g.Con.Field(w, "  "+t.Name+"  ", fmt.Sprintf("%s, run %s, set at %s", unseen.Spell(t.Source), t.Run, unseen.Spell(g.WS.Relative(t.Origin))), 4)
		if t.Run == string(tools.RunAsk) {
			more("if nobody can be asked: %s", t.Detached)
		}
		for _, rule := range t.Access {
			more("access %s", unseen.Spell(rule))
		}
		if t.Sandbox == "" {
			continue
		}
		if t.Sandbox == string(tools.SandboxOff) {
			more("%s", servers.Unconfined)
		}
		if t.Command != "" {
			more("runs %s", unseen.Spell(t.Command))
		}
		if len(t.JP) > 0 {
			more("runs jp %s, for the conversation that calls it", strings.Join(t.JP, " "))
		}
		more("network %s, sandbox %s, timeout %s, variables %s", t.Network, t.Sandbox, t.Timeout, cmp.Or(strings.Join(t.Env, " "), "none"))
		if t.Defined != "" {
			more("defined in %s", unseen.Spell(t.Defined))
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
