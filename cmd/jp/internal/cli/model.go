package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
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
	"jp/tools/suggest"
)

func newModelCommand(a *app) *cli.Command {
	return a.tree.Command(command.Spec{
		Name: "model", Summary: "list and show models, with windows and prices",
		About: "A model is provider/model, or an alias of [providers.llm.aliases]. Built-in providers: " + builtinNames() +
			"; [providers.llm.<name>] in your config.toml adds others.",
		Subs: []*cli.Command{newModelListCommand(a), newModelShowCommand(a)},
	})
}

func builtinNames() string {
	var names []string
	for _, b := range model.Builtins() {
		names = append(names, b.Name)
	}
	return strings.Join(names, ", ")
}

// modelShown is a model as it is published. Prices are US dollars for a million tokens.
type modelShown struct {
	ID        string      `json:"id"`
	Provider  string      `json:"provider"`
	Aliases   []string    `json:"aliases"`
	Status    string      `json:"status"`   // ready, no_key, script, or not_served: its server here does not have it
	KeyEnv    string      `json:"key_env"`  // the variable of its key; "" = none is sent
	API       string      `json:"api"`      // chat or responses where the wire format is OpenAI's; "" otherwise
	Endpoint  string      `json:"endpoint"` // base URL; "" for scripts
	Local     bool        `json:"local"`
	Window    *int        `json:"window"`     // tokens of input and output together; null = not known
	MaxOutput *int        `json:"max_output"` // tokens; null = not known
	Price     *priceShown `json:"price"`      // null = not known
	Source    string      `json:"price_source"`
}

type priceShown struct {
	Input      stream.USD  `json:"input"`
	Output     stream.USD  `json:"output"`
	CacheRead  stream.USD  `json:"cache_read"`
	CacheWrite stream.USD  `json:"cache_write"`
	Above      int64       `json:"above,omitempty"` // tokens of prompt from which Long holds
	Long       *priceShown `json:"long,omitempty"`
}

func showPrice(p *model.Price) *priceShown {
	if p == nil {
		return nil
	}
	million := func(nano int64) stream.USD { return stream.USD(nano * 1e6) }
	s := &priceShown{Input: million(p.Input), Output: million(p.Output), CacheRead: million(p.CacheRead), CacheWrite: million(p.CacheWrite)}
	if l := p.Long; l != nil {
		s.Above, s.Long = l.Above, &priceShown{Input: million(l.Input), Output: million(l.Output), CacheRead: million(l.CacheRead), CacheWrite: million(l.CacheWrite)}
	}
	return s
}

// modelCatalog is what is known about models here: config, built-in table and the servers on this machine.
type modelCatalog struct {
	app       *app
	config    profiles.Config
	providers model.Providers
	servers   []model.Server
	served    map[string]model.Served // by id
}

// modelCatalog reads the config and asks the servers on this machine. A workspace that is not trusted is not read.
func (a *app) modelCatalog(ctx context.Context) (*modelCatalog, error) {
	r, err := a.ws.Resolve(a.ws.TrustedSources(ctx), nil, nil)
	if err != nil {
		return nil, err
	}
	for _, w := range r.Warnings {
		a.con.Warn("%s", w)
	}
	c := &modelCatalog{app: a, config: r.Config, providers: a.env.Providers(r.Config), served: map[string]model.Served{}}
	c.servers = model.Local(ctx, c.providers)
	for _, s := range c.servers {
		_, configured := r.Config.Providers.LLM[s.Provider]
		if s.Err != nil {
			say := a.con.Verbosef
			if configured {
				say = a.con.Note
			}
			say("no models from %s: %v", s.URL, s.Err)
		}
		for _, m := range s.Models {
			c.served[s.Provider+"/"+m.ID] = m
		}
	}
	return c, ctx.Err()
}

// ids lists what there is to choose from: aliases' models, configured prices, the table, what servers here have.
func (c *modelCatalog) ids() []string {
	ids := slices.Concat(model.Known(), slices.Collect(maps.Keys(c.served)), slices.Collect(maps.Keys(c.config.Providers.Prices)),
		slices.Collect(maps.Values(c.config.Providers.Aliases)))
	if id, err := c.config.RequireModel(); err == nil {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (c *modelCatalog) show(id string) (modelShown, error) {
	info, err := model.Lookup(id, c.providers)
	if err != nil {
		return modelShown{}, err
	}
	number := func(n int) *int {
		if n <= 0 {
			return nil
		}
		return &n
	}
	s := modelShown{ID: info.ID, Provider: info.Provider, Aliases: []string{}, Status: "ready", KeyEnv: info.KeyEnv, API: info.API, Endpoint: info.Endpoint,
		Local: info.Local, Window: number(info.Window), MaxOutput: number(info.MaxOutput), Price: showPrice(info.Price)}
	if m, ok := c.served[info.ID]; ok && s.Window == nil {
		s.Window = number(m.Window)
	}
	for alias, id := range c.config.Providers.Aliases {
		if id == info.ID {
			s.Aliases = append(s.Aliases, alias)
		}
	}
	slices.Sort(s.Aliases)
	switch _, served := c.served[info.ID]; {
	case info.Endpoint == "":
		s.Status = "script"
	case info.KeyEnv != "" && c.app.con.Getenv(info.KeyEnv) == "":
		s.Status = "no_key"
	case !served && slices.ContainsFunc(c.servers, func(v model.Server) bool { return v.Provider == info.Provider }):
		s.Status = "not_served"
	}
	switch _, configured := c.config.Providers.Prices[info.ID]; {
	case info.Price == nil:
	case configured:
		s.Source = "config"
	case info.Local:
		s.Source = "local"
	default:
		s.Source = "built-in of " + model.PricesDate
	}
	return s, nil
}

func newModelListCommand(a *app) *cli.Command {
	return a.tree.Command(command.Spec{
		Name: "ls", Paged: true, Summary: "list models that jp knows and those of servers on this machine", Args: "[PROVIDER]", Max: 1,
		About: "Models of the built-in table, of aliases and prices in the config, and those that servers on this machine (Ollama, llama.cpp, " +
			"each provider at a loopback address) list within 200 ms; nobody else is asked. Any other id of a provider works too, without a known " +
			"price. Prices are US dollars for a million tokens of input and output. A pipe gets tab-separated lines: id, status, window, longest " +
			"output, price of input, price of output, aliases; ? is unknown. The status no_key means that the variable of the key is not set.",
		Exits:    []exit.Status{exit.NotFound},
		Examples: []string{"jp model ls", "jp model ls ollama", "jp model ls -F json | jq -r '.[] | select(.status == \"ready\").id'"},
		Run: func(ctx context.Context, args []string) error {
			c, err := a.modelCatalog(ctx)
			if err != nil {
				return err
			}
			list := []modelShown{}
			for _, id := range c.ids() {
				if s, err := c.show(id); err != nil {
					a.con.Warn("%s: %v", term.Line(id), err)
				} else if len(args) == 0 || s.Provider == args[0] {
					list = append(list, s)
				}
			}
			if len(list) == 0 && len(args) > 0 {
				return c.noModels(args[0])
			}
			if a.con.JSON() {
				return a.con.Document(list)
			}
			rows := make([][]string, len(list))
			for i, s := range list {
				in, out := "?", "?"
				if s.Price != nil {
					in, out = dollarsText(s.Price.Input), dollarsText(s.Price.Output)
				}
				rows[i] = []string{s.ID, s.Status, countText(s.Window), countText(s.MaxOutput), in, out, strings.Join(s.Aliases, " ")}
			}
			if err := a.con.Table([]term.Column{{Title: "model", Flex: true}, {Title: "status"}, {Title: "window", Right: true}, {Title: "output", Right: true, Drop: 2},
				{Title: "$ in", Right: true}, {Title: "$ out", Right: true}, {Title: "aliases", Drop: 1}}, rows); err != nil {
				return err
			}
			if a.con.Pretty() {
				return a.con.Text(func(w *bufio.Writer) error {
					_, err := fmt.Fprintf(w, "\nUS dollars for a million tokens; built-in prices are of %s.\n", model.PricesDate)
					return err
				})
			}
			return nil
		},
	})
}

// noModels tells a provider of which no model is known from one that there is not.
func (c *modelCatalog) noModels(provider string) error {
	if _, err := model.Lookup(provider+"/x", c.providers); err != nil {
		var names []string
		for _, b := range model.Builtins() {
			names = append(names, b.Name)
		}
		f := exit.NotFoundf("provider %q: not found", provider)
		if near := suggest.Closest(provider, slices.Concat(names, slices.Collect(maps.Keys(c.config.Providers.LLM)))); near != "" {
			return f.WithHint("did you mean %s?", near)
		}
		return f.WithHint("there are %s, and what [providers.llm.<name>] adds", strings.Join(names, ", "))
	}
	return exit.NotFoundf("provider %s: none of its models is known here", provider).
		WithHint("any id of it works: --model %s/<the provider's own id>; a server on this machine has to run to be listed", provider)
}

func dollarsText(u stream.USD) string {
	s := strconv.FormatFloat(float64(u)/1e9, 'f', -1, 64)
	if i := strings.IndexByte(s, '.'); i >= 0 && len(s)-i == 2 {
		s += "0" // 0.5 is 0.50
	}
	return s
}

func countText(n *int) string {
	if n == nil {
		return "?"
	}
	return strconv.Itoa(*n)
}

func newModelShowCommand(a *app) *cli.Command {
	return a.tree.Command(command.Spec{
		Name: "show", Slow: true, Summary: "show what is known about a model", Args: "MODEL", Min: 1, Max: 1,
		About:    "MODEL is provider/model or an alias. Nobody outside this machine is asked, and the key is not shown.",
		Exits:    []exit.Status{exit.Provider},
		Examples: []string{"jp model show anthropic/claude-sonnet-5-5"},
		Run: func(ctx context.Context, args []string) error {
			c, err := a.modelCatalog(ctx)
			if err != nil {
				return err
			}
			id, err := c.config.ResolveModel(args[0])
			if err != nil {
				return err
			}
			s, err := c.show(id)
			if err != nil {
				return err
			}
			if a.con.JSON() {
				return a.con.Document(s)
			}
			return a.con.Text(func(w *bufio.Writer) error { return writeModel(w, s) })
		},
	})
}

func writeModel(w *bufio.Writer, s modelShown) error {
	key := "none is sent"
	if s.KeyEnv != "" {
		key = s.KeyEnv + wording.Either(s.Status == "no_key", " (not set)", " (set)")
	}
	fmt.Fprintf(w, "model       %s\nstatus      %s\naliases     %s\nendpoint    %s\nkey         %s\nwindow      %s\nmax output  %s\n",
		term.Line(s.ID), s.Status, term.Line(cmp.Or(strings.Join(s.Aliases, " "), "none")), cmp.Or(s.Endpoint, "none")+wording.Either(s.API == model.Responses, " (Responses API)", ""), key, countText(s.Window), countText(s.MaxOutput))
	if s.Price == nil {
		_, err := fmt.Fprintf(w, "price       unknown; [providers.llm.prices.%q] input and output in your config.toml set it\n", s.ID)
		return err
	}
	line := func(p *priceShown) string {
		return fmt.Sprintf("in %s, out %s, cache read %s, cache write %s", dollarsText(p.Input), dollarsText(p.Output), dollarsText(p.CacheRead), dollarsText(p.CacheWrite))
	}
	fmt.Fprintf(w, "price       %s (US dollars for a million tokens, %s)\n", line(s.Price), s.Source)
	if s.Price.Long != nil {
		fmt.Fprintf(w, "            above %d tokens of prompt: %s\n", s.Price.Above, line(s.Price.Long))
	}
	return nil
}
