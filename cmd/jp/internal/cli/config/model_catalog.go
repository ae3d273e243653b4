package config

import (
	"context"
	"maps"
	"slices"

	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/wording"
	"jp/profiles"
)

// modelShown is the JSON form of a model. Prices are US dollars for a million tokens.
type modelShown struct {
	ID        string      `json:"id"`
	Provider  string      `json:"provider"`
	Aliases   []string    `json:"aliases"`
	Status    string      `json:"status"`   // ready, no_key, script, or not_served (its server on this machine does not have it)
	KeyEnv    string      `json:"key_env"`  // variable of its key; "" = no key is sent
	API       string      `json:"api"`      // chat or responses with an API of OpenAI; "" otherwise
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
	Above      int64       `json:"above,omitempty"` // prompt size in tokens above which Long applies
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

// modelCatalog has all known models: those of the config, the built-in table and the servers on
// this machine.
type modelCatalog struct {
	getenv    func(string) string
	config    profiles.Config
	named     []string // models that the config names
	providers model.Providers
	servers   []model.Server
	served    map[string]model.Served // models of the servers, by id
}

// modelCatalog reads the config and asks the servers on this machine. A workspace that is not
// trusted is not read.
func (g *Group) modelCatalog(ctx context.Context) (*modelCatalog, error) {
	r, err := profiles.Resolve(g.WS.TrustedSources(ctx), nil, nil)
	if err != nil {
		return nil, err
	}
	for _, w := range r.Warnings {
		g.Con.Warn("%s", w)
	}
	c := &modelCatalog{getenv: g.Con.Getenv, config: r.Config, providers: g.Env.Providers(r.Config), served: map[string]model.Served{}}
	if named, err := g.Env.Answering(r.Config); err == nil {
		c.named = named
	}
	c.servers = model.Local(ctx, c.providers)
	for _, s := range c.servers {
		_, configured := r.Config.Providers.LLM[s.Provider]
		if s.Err != nil {
			say := g.Con.Verbosef
			if configured {
				say = g.Con.Note
			}
			say("no models from %s: %v", s.URL, s.Err)
		}
		for _, m := range s.Models {
			c.served[s.Provider+"/"+m.ID] = m
		}
	}
	return c, ctx.Err()
}

// ids lists the models to choose from: those of aliases, of configured prices, of the built-in
// table and of the servers on this machine.
func (c *modelCatalog) ids() []string {
	ids := slices.Concat(model.Known(), slices.Collect(maps.Keys(c.served)), slices.Collect(maps.Keys(c.config.Providers.Prices)),
		slices.Collect(maps.Values(c.config.Providers.Aliases)))
	ids = append(ids, c.named...)
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
	case info.KeyEnv != "" && c.getenv(info.KeyEnv) == "":
		s.Status = "no_key"
	case !served && slices.ContainsFunc(c.servers, func(v model.Server) bool { return v.Provider == info.Provider }):
		s.Status = "not_served"
	}
	switch _, configured := c.config.Providers.Prices[info.ID]; {
	case info.Price == nil:
	case configured:
		s.Source = "config"
	case info.Local && *info.Price == (model.Price{}):
		s.Source = "local"
	default:
		s.Source = "built-in of " + model.PricesDate + wording.Either(info.Region, " and 10% for the region", "")
	}
	return s, nil
}
