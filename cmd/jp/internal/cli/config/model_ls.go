package config

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/term"
	"jp/tools/suggest"
)

func newModelListCommand(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "ls", Paged: true, Summary: "list the models that jp knows and those of servers on this machine", Args: "[PROVIDER]", Max: 1,
		About: "Lists the models of the built-in table, those that the config names in aliases and " +
			"prices, and those of servers on this machine (Ollama, llama.cpp, each provider at a " +
			"loopback address) that answer within 200 ms. jp asks no other server. You can use " +
			"any other id of a provider too; its price is then unknown. Prices are US dollars for " +
			"a million tokens of input and output.\n\n" +
			"In a pipe it prints tab-separated lines: id, status, window, longest output, price " +
			"of input, price of output, aliases; ? is unknown. The status no_key means that the " +
			"variable for the key is not set.",
		Exits:    []exit.Status{exit.NotFound},
		Examples: []string{"jp model ls", "jp model ls ollama", "jp model ls -F json | jq -r '.[] | select(.status == \"ready\").id'"},
		Run:      func(ctx context.Context, args []string) error { return runModelList(ctx, g, args) },
	})
}

func runModelList(ctx context.Context, g *Group, args []string) error {
	c, err := g.modelCatalog(ctx)
	if err != nil {
		return err
	}
	list := []modelShown{}
	for _, id := range c.ids() {
		if s, err := c.show(id); err != nil {
			g.Con.Warn("%s: %v", term.Line(id), err)
		} else if len(args) == 0 || s.Provider == args[0] {
			list = append(list, s)
		}
	}
	if len(list) == 0 && len(args) > 0 {
		return c.noModels(args[0])
	}
	if g.Con.JSON() {
		return g.Con.Document(list)
	}
	rows := make([][]string, len(list))
	for i, s := range list {
		in, out := "?", "?"
		if s.Price != nil {
			in, out = dollarsText(s.Price.Input), dollarsText(s.Price.Output)
		}
		rows[i] = []string{s.ID, s.Status, countText(s.Window), countText(s.MaxOutput), in, out, strings.Join(s.Aliases, " ")}
	}
	if err := g.Con.Table([]term.Column{{Title: "model"}, {Title: "status", Drop: 1}, {Title: "window", Right: true, Drop: 4}, {Title: "output", Right: true, Drop: 5},
		{Title: "$ in", Right: true, Drop: 3}, {Title: "$ out", Right: true, Drop: 2}, {Title: "aliases", Drop: 6}}, rows); err != nil {
		return err
	}
	if g.Con.Pretty() {
		return g.Con.Text(func(w *bufio.Writer) error {
			fmt.Fprintln(w)
			g.Con.Field(w, "", "US dollars for a million tokens; built-in prices are of "+model.PricesDate+".", 0)
			return nil
		})
	}
	return nil
}

// noModels is the error for a provider without a known model; it says whether there is such a
// provider.
func (c *modelCatalog) noModels(provider string) error {
	if _, err := model.Lookup(provider+"/x", c.providers); err != nil {
		names := builtinNames()
		return exit.NotFoundf("provider %q: not found", provider).WithHint("%s", cmp.Or(
			suggest.Meant("did you mean %s?", provider, slices.Concat(names, slices.Collect(maps.Keys(c.config.Providers.LLM)))),
			"there are "+strings.Join(names, ", ")+", and what [providers.llm.<name>] adds"))
	}
	return exit.NotFoundf("provider %s: none of its models is known", provider).
		WithHint("you can use any of its models: --model %s/<the provider's own id>; a server on this machine is listed only while it runs", provider)
}
