package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/term"
	"jp/convstore"
	"jp/profiles"
)

// completionPatience is how long completion waits for the store's lock: somebody is typing.
const completionPatience = 30 * time.Millisecond

// completionLimit is how many conversations are offered.
const completionLimit = 100

// known are the values that stand for what help calls arg: TARGET, PROFILE and so on. Nothing is made, asked or waited for; of
// a workspace that is not trusted only the store is read. What cannot be read is not offered.
func (a *app) known(ctx context.Context, arg, word string) []command.Candidate {
	a.con.Globals.Quiet, a.con.Globals.NonInteractive, a.con.Globals.NoPersist = true, true, true
	a.ws.Patience = completionPatience
	var out []command.Candidate
	switch strings.TrimSuffix(strings.Trim(arg, "[]"), "...") {
	case "ID", "TARGET":
		out = a.knownConversations(ctx, word)
	case "MODEL":
		out = a.knownModels(ctx, func(string) bool { return true })
	case "PROFILE":
		out = a.knownProfiles(ctx)
	case "TOOL":
		out = a.knownTools(ctx)
	case "SERVER":
		out = a.knownServers(ctx)
	case "KEY":
		out = knownKeys("")
	case "KEY=VALUE":
		out = knownKeys("=")
	case "X": // of --cfg
		out = slices.Concat([]command.Candidate{
			{Word: "NONE", Text: "start over: program defaults"},
			{Word: "WORKSPACE", Text: "start over: the config of this workspace"},
		},
			a.knownProfiles(ctx), knownKeys("="))
	}
	return slices.DeleteFunc(out, func(c command.Candidate) bool { return !strings.HasPrefix(c.Word, word) || !typeable(c.Word) })
}

// typeable reports whether a shell can put a word on its line as it is: a file's name could be a command.
func typeable(word string) bool {
	return word != "" && strings.IndexFunc(word, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:=@+", r))
	}) < 0
}

// knownConversations are the latest ones, and the words that stand for some. An id that is begun finds hidden ones too.
func (a *app) knownConversations(ctx context.Context, word string) []command.Candidate {
	all := a.conversations(ctx, len(word) > len("jp-c"))
	if all == nil {
		return nil
	}
	out := []command.Candidate{
		{Word: ".", Text: "this session's active conversation"},
		{Word: "previous", Text: "the one before"},
		{Word: "recent", Text: "latest activity"},
		{Word: "newest", Text: "made last"},
	}
	for _, c := range all {
		out = append(out, command.Candidate{Word: c.ID.String(), Text: term.Cut(term.Line(c.Title), 60, true)})
	}
	return out
}

// conversations lists the latest ones; nil when the store cannot be read now.
func (a *app) conversations(ctx context.Context, hidden bool) []convstore.Conversation {
	st, err := a.ws.Store(ctx)
	if err != nil {
		return nil
	}
	cs, err := st.List(ctx, convstore.Filter{Sort: convstore.SortActivity, Descending: true, Limit: completionLimit, Hidden: hidden})
	if err != nil {
		return nil
	}
	return cs
}

func (a *app) knownProfiles(ctx context.Context) []command.Candidate {
	found, err := profiles.Names(a.ws.TrustedSources(ctx))
	if err != nil {
		return nil
	}
	var out []command.Candidate
	for _, p := range found {
		if !p.Shadowed {
			out = append(out, command.Candidate{Word: p.Name, Text: p.Source})
		}
	}
	return out
}

func (a *app) knownTools(ctx context.Context) []command.Candidate {
	r, err := profiles.Resolve(a.ws.TrustedSources(ctx), nil, nil)
	if err != nil {
		return nil
	}
	var out []command.Candidate
	for _, name := range slices.Sorted(maps.Keys(r.Tools)) {
		if name != "*" {
			out = append(out, command.Candidate{Word: name, Text: ""})
		}
	}
	return out
}

// knownServers are the MCP servers of the user's config and of a workspace that is trusted.
func (a *app) knownServers(ctx context.Context) []command.Candidate {
	a.ws.Gate.PassUnasked(ctx)
	all, err := a.env.Servers.All(ctx)
	if err != nil {
		return nil
	}
	var out []command.Candidate
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, command.Candidate{Word: name, Text: all[name].Origin})
	}
	return out
}

// knownModels are the aliases, the models in use (the config's and those of the latest conversations) and those of the built-in
// table that which takes.
func (a *app) knownModels(ctx context.Context, which func(id string) bool) []command.Candidate {
	var out []command.Candidate
	seen := map[string]bool{"": true}
	add := func(model, text string) {
		if !seen[model] {
			seen[model] = true
			out = append(out, command.Candidate{Word: model, Text: text})
		}
	}
	if r, err := profiles.Resolve(a.ws.TrustedSources(ctx), nil, nil); err == nil {
		for _, alias := range slices.Sorted(maps.Keys(r.Config.Providers.Aliases)) {
			add(alias, r.Config.Providers.Aliases[alias])
		}
		add(r.Config.Assistant.Model, "of the config")
	}
	for _, c := range a.conversations(ctx, true) {
		add(c.Model, "used before")
	}
	for _, id := range model.Known() {
		if which(id) {
			add(id, "known")
		}
	}
	return out
}

// hasKey reports whether a key for a model of the built-in table is set.
func (a *app) hasKey(id string) bool {
	provider, _, _ := strings.Cut(id, "/")
	b, ok := model.FindBuiltin(provider)
	return ok && a.con.Getenv(b.KeyEnv(a.con.Getenv)) != ""
}

// knownKeys are the settings, those with a name in them left out.
func knownKeys(after string) []command.Candidate {
	var out []command.Candidate
	for _, s := range profiles.Settings() {
		if !strings.Contains(s.Key, "<") {
			out = append(out, command.Candidate{Word: s.Key + after, Text: s.Doc})
		}
	}
	return out
}
