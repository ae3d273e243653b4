// Package config is the verbs of jp config, profile, model and tool, and jp check: what an agent is
// and can do, shown, checked and changed.
//
// A [Group] is what they share; each verb has a file. Most read config as a run does, behind the
// gate. profile ls, profile show and the checks review a workspace that need not be trusted; model
// ls and model show ignore a workspace that is not trusted. config set, config fmt and profile
// import check the new text first and write it under one lock. A trusted workspace stays trusted
// with exactly these bytes.
package config

import (
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/review"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/workspace"
)

// Group is what the verbs of jp config, profile, model and tool share.
type Group struct {
	Con    *console.Console
	WS     *workspace.Workspace
	Env    *run.Env
	Tree   *command.Tree
	Review *review.Reviewer
}

// New is jp config.
func New(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "config", Summary: "show, explain and change the config",
		About: "The config says what an agent of this workspace is and can do. It is resolved from all layers.",
		Subs:  []*cli.Command{newShowCommand(g), newExplainCommand(g), newSetCommand(g), newFormatCommand(g)},
	})
}

// NewProfile is jp profile.
func NewProfile(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "profile", Summary: "list, show, check and import agent profiles",
		About: "A profile is a config file that says what an agent is and can do.",
		Subs:  []*cli.Command{newProfileListCommand(g), newProfileShowCommand(g), newProfileCheckCommand(g), newProfileImportCommand(g)},
	})
}

// NewModel is jp model.
func NewModel(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "model", Summary: "list and show models, with windows and prices",
		About: "A model is provider/model, or an alias of [providers.llm.aliases]. Built-in providers: " + strings.Join(builtinNames(), ", ") +
			"; [providers.llm.<name>] in your config.toml adds others.",
		Subs: []*cli.Command{newModelListCommand(g), newModelShowCommand(g)},
	})
}

// builtinNames returns the names of the built-in providers.
func builtinNames() []string {
	var names []string
	for _, b := range model.Builtins() {
		names = append(names, b.Name)
	}
	return names
}

// NewTool is jp tool.
func NewTool(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "tool", Summary: "list, show, check and run tools",
		About: "These are the tools that the config of this workspace enables for its agent.",
		Subs:  []*cli.Command{newToolListCommand(g), newToolShowCommand(g), newToolCheckCommand(g), newToolRunCommand(g)},
	})
}
