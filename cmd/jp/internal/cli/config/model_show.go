package config

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
	"jp/profiles"
)

func newModelShowCommand(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "show", Slow: true, Summary: "show what is known about a model", Args: "MODEL", Min: 1, Max: 1,
		About: "MODEL is provider/model or an alias. jp asks no server outside this machine, and " +
			"does not show the key.",
		Exits:    []exit.Status{exit.Provider},
		Examples: []string{"jp model show anthropic/claude-sonnet-5-5"},
		Run:      func(ctx context.Context, args []string) error { return runModelShow(ctx, g, args[0]) },
	})
}

func runModelShow(ctx context.Context, g *Group, name string) error {
	c, err := g.modelCatalog(ctx)
	if err != nil {
		return err
	}
	id, err := c.config.ResolveModel(name)
	if bad, ok := errors.AsType[*profiles.Error](err); ok {
		return exit.Usagef("model %s", bad.Msg).WithHint("%s", cmp.Or(bad.Hint, "`jp model ls` lists what is known"))
	}
	s, err := c.show(id)
	if err != nil {
		return err
	}
	if g.Con.JSON() {
		return g.Con.Document(s)
	}
	return g.Con.Text(func(w *bufio.Writer) error {
		g.writeModel(w, s)
		return nil
	})
}

func (g *Group) writeModel(w *bufio.Writer, s modelShown) {
	row := func(name, text string) { g.Con.Field(w, fmt.Sprintf("%-10s  ", name), term.Line(text), 12) }
	key := "none is sent"
	if s.KeyEnv != "" {
		key = s.KeyEnv + wording.Either(s.Status == "no_key", " (not set)", " (set)")
	}
	row("model", s.ID)
	row("status", s.Status)
	row("aliases", cmp.Or(strings.Join(s.Aliases, " "), "none"))
	row("endpoint", cmp.Or(s.Endpoint, "none")+wording.Either(s.API == model.Responses, " (Responses API)", ""))
	row("key", key)
	row("window", countText(s.Window))
	row("max output", countText(s.MaxOutput))
	if s.Price == nil {
		row("price", fmt.Sprintf("unknown; [providers.llm.prices.%q] input and output in your config.toml set it", s.ID))
		return
	}
	prices := func(p *priceShown) string {
		return fmt.Sprintf("in %s, out %s, cache read %s, cache write %s", dollarsText(p.Input), dollarsText(p.Output), dollarsText(p.CacheRead), dollarsText(p.CacheWrite))
	}
	row("price", fmt.Sprintf("%s (US dollars for a million tokens, %s)", prices(s.Price), s.Source))
	if s.Price.Long != nil {
		row("", fmt.Sprintf("above %d tokens of prompt: %s", s.Price.Above, prices(s.Price.Long)))
	}
}

func dollarsText(u stream.USD) string {
	s := strconv.FormatFloat(float64(u)/1e9, 'f', -1, 64)
	if i := strings.IndexByte(s, '.'); i >= 0 && len(s)-i == 2 {
		s += "0" // print 0.5 as 0.50
	}
	return s
}

func countText(n *int) string {
	if n == nil {
		return "?"
	}
	return strconv.Itoa(*n)
}
