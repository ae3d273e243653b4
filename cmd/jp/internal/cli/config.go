package cli

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

// settings is what the verbs of jp config, profile, model and tool share.
type settings struct {
	Con    *console.Console
	WS     *workspace.Workspace
	Env    *run.Env
	Tree   *command.Tree
	Review *review.Reviewer
}

func newConfigCommand(g *settings) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "config", Summary: "show, explain and change the config",
		About: "What an agent of this workspace is and can do, resolved from all layers.",
		Subs:  []*cli.Command{newConfigShowCommand(g), newConfigExplainCommand(g), newConfigSetCommand(g), newConfigFormatCommand(g)},
	})
}

func newProfileCommand(g *settings) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "profile", Summary: "list, show, check and import agent profiles",
		About: "A profile is one config file that says what an agent is and can do.",
		Subs:  []*cli.Command{newProfileListCommand(g), newProfileShowCommand(g), newProfileCheckCommand(g), newProfileImportCommand(g)},
	})
}

func newModelCommand(g *settings) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "model", Summary: "list and show models, with windows and prices",
		About: "A model is provider/model, or an alias of [providers.llm.aliases]. Built-in providers: " + builtinNames() +
			"; [providers.llm.<name>] in your config.toml adds others.",
		Subs: []*cli.Command{newModelListCommand(g), newModelShowCommand(g)},
	})
}

func builtinNames() string {
	var names []string
	for _, b := range model.Builtins() {
		names = append(names, b.Name)
	}
	return strings.Join(names, ", ")
}

func newToolCommand(g *settings) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "tool", Summary: "list, show, check and run tools",
		About: "The tools that an agent of this workspace holds: those that the config enables.",
		Subs:  []*cli.Command{newToolListCommand(g), newToolShowCommand(g), newToolCheckCommand(g), newToolRunCommand(g)},
	})
}
