// Package config has the commands of `jp config`, `jp profile`, `jp model` and `jp tool`, and `jp
// check`. They show, check and change what an agent is and can do.
//
// They share a [Group], and each has a file. Most need a trusted workspace and read config as a run
// does. profile ls, profile show and the checks also read a workspace that is not trusted. model ls
// and model show ignore such a workspace. config set, config fmt and profile import check the new
// text, then write it under one lock. The workspace stays trusted with exactly these bytes.
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

// Group has what these commands share.
type Group struct {
	Con    *console.Console
	WS     *workspace.Workspace
	Env    *run.Env
	Tree   *command.Tree
	Review *review.Reviewer
}

// New returns the command `jp config`.
func New(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "config", Summary: "show, explain and change the config",
		About: "The config says what an agent of this workspace is and can do. It is resolved from all layers.",
		Subs:  []*cli.Command{newShowCommand(g), newExplainCommand(g), newSetCommand(g), newUnsetCommand(g), newFormatCommand(g)},
	})
}

// NewProfile returns the command `jp profile`.
func NewProfile(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "profile", Summary: "list, show, check and import agent profiles",
		About: "A profile is a config file that says what an agent is and can do.",
		Subs:  []*cli.Command{newProfileListCommand(g), newProfileShowCommand(g), newProfileCheckCommand(g), newProfileImportCommand(g)},
	})
}

// NewModel returns the command `jp model`.
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

// NewTool returns the command `jp tool`.
func NewTool(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "tool", Summary: "list, show, check and run tools",
		About: "These are the tools that the config of this workspace enables for its agent.",
		Subs:  []*cli.Command{newToolListCommand(g), newToolShowCommand(g), newToolCheckCommand(g), newToolRunCommand(g)},
	})
}
