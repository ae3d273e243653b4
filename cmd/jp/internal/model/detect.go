package model

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"jp/profiles/alias"
)

// Candidate is a model that seems usable on this machine.
type Candidate struct {
	Model  string // id
	Reason string // why it seems usable: "ANTHROPIC_API_KEY is set"
}

// Detect lists models for which the environment has a key, and models of an Ollama and of a
// llama.cpp server that answer on this machine within 200 ms, best first. It connects to no other
// machine.
func Detect(ctx context.Context, env func(string) string) []Candidate {
	var found []Candidate
	for _, v := range vendors() {
		if b, _ := FindBuiltin(v.name); env(b.KeyEnv(env)) != "" {
			found = append(found, Candidate{v.model, b.KeyEnv(env) + " is set"})
		}
	}
	ctx, cancel := context.WithTimeout(ctx, localPatience)
	defer cancel()
	local := []struct{ name, title string }{{"ollama", "Ollama"}, {"llamacpp", "llama.cpp"}}
	served := make([][]Candidate, len(local))
	var all sync.WaitGroup
	for i, l := range local {
		// where the provider is; any name of a model does
		info, _, err := Providers{Env: env}.resolve(l.name + "/x")
		if err != nil || !loopback(info.Endpoint) {
			continue
		}
		all.Go(func() {
			models, _ := servedBy(ctx, l.name, info.Endpoint)
			for _, m := range models {
				served[i] = append(served[i], Candidate{l.name + "/" + m.ID, l.title + " answers at " + strings.TrimSuffix(info.Endpoint, "/v1/")})
			}
		})
	}
	all.Wait()
	return slices.Concat(found, slices.Concat(served...))
}

// vendors are the built-in providers of which jp proposes a model, best first, with one that costs
// much less.
func vendors() []struct{ name, model, cheap string } {
	return []struct{ name, model, cheap string }{
		{"anthropic", alias.Builtin()["sonnet"], alias.Builtin()["haiku"]},
		{"openai", alias.Builtin()["gpt"], "openai/gpt-6-luna"},
	}
}

// Cheaper returns a model for the scoped work of sub-agents beside the model id: one of the same
// provider that costs less, or id itself if none is known.
func Cheaper(id string) string {
	provider, _, _ := strings.Cut(id, "/")
	own, known := tableEntry(id)
	for _, v := range vendors() {
		if cheap, _ := tableEntry(v.cheap); v.name == provider && (!known || cheap.price.Output < own.price.Output) {
			return v.cheap
		}
	}
	return id
}

// localPatience is how long a server on this machine has to list its models.
const localPatience = 200 * time.Millisecond

// Server is a server on this machine that serves models.
type Server struct {
	Provider string // in model ids
	URL      string // base URL
	Models   []Served
	Err      error // why there is no list of models; nil = there is one
}

// Served is one model of a server.
type Served struct {
	ID     string // the server's own id
	Window int    // tokens; 0 = unknown
}

// Local asks the servers on this machine for their models: those that the config or a built-in
// provider names, all at the same time, for at most 200 ms. It connects to no other machine and
// sends no key. The list is sorted by provider.
func Local(ctx context.Context, p Providers) []Server {
	ctx, cancel := context.WithTimeout(ctx, localPatience)
	defer cancel()
	var found []Server
	for _, name := range p.names() {
		// Any name of a model: what counts is where the provider is.
		info, t, err := p.resolve(name + "/x")
		if err == nil && t.format == "openai" && loopback(info.Endpoint) {
			found = append(found, Server{Provider: name, URL: info.Endpoint})
		}
	}
	var all sync.WaitGroup
	for i := range found {
		all.Go(func() { found[i].Models, found[i].Err = servedBy(ctx, found[i].Provider, found[i].URL) })
	}
	all.Wait()
	return found
}

// servedMost bounds how many models of one server are listed.
const servedMost = 200

// servedBy asks an OpenAI-compatible server for its models. It leaves out embedding models, and
// models whose ids cannot be ids of jp. The error is an *Error.
func servedBy(ctx context.Context, provider, base string) ([]Served, error) {
	c := Config{Name: provider, BaseURL: base, Client: NewClient()}
	defer c.Client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"models", nil)
	if err != nil {
		return nil, c.unreachable(err)
	}
	resp, err := c.Client.Do(req)
	if err != nil {
		return nil, c.unreachable(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, c.statusError(resp.StatusCode, resp.Header, readError(resp))
	}
	var list struct {
		Data []struct {
			ID   string `json:"id"`
			Most int    `json:"max_model_len"` // of vLLM
			Meta struct {
				Context int `json:"n_ctx"` // of llama.cpp
			} `json:"meta"`
		} `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&list); err != nil {
		return nil, &Error{Provider: c.Name, Kind: KindStream, Message: "its list of models makes no sense", Err: err}
	}
	var models []Served
	for _, m := range list.Data {
		if m.ID != "" && clean(m.ID, "") == m.ID && !strings.Contains(m.ID, " ") && !strings.Contains(m.ID, "embed") {
			models = append(models, Served{m.ID, max(m.Most, m.Meta.Context, 0)})
		}
	}
	slices.SortFunc(models, func(a, b Served) int { return strings.Compare(a.ID, b.ID) })
	return models[:min(len(models), servedMost)], nil
}

// Known lists the ids of the built-in table, a vendor's latest first.
func Known() []string {
	var ids []string
	for id := range knownModels {
		ids = append(ids, id)
	}
	return ids
}

// Meant returns the id of the built-in table that a name without a provider stands for, "" for
// none. The name is that of a model, such as claude-opus-5-5, or that of a family, such as claude
// or gpt-6, which stands for the model that jp proposes, or else for its latest model.
func Meant(name string) string {
	name = strings.ToLower(name)
	ids := []string{}
	for _, v := range vendors() {
		ids = append(ids, v.model)
	}
	family := ""
	for _, id := range append(ids, Known()...) {
		_, bare, _ := strings.Cut(id, "/")
		if bare == name {
			return id
		}
		if family == "" && name != "" && strings.Contains("-"+bare, "-"+name+"-") {
			family = id
		}
	}
	return family
}

// Examples lists some ids, for people who do not know what models are called.
const Examples = "anthropic/claude-sonnet-5-5, openai/gpt-6.1-sol or ollama/qwen3"
