// Package choices lists values to choose from: conversations, models, profiles, tools, MCP servers
// and settings. Completion offers them in a shell, and a session offers them in an editor.
//
// It makes nothing, asks nothing and waits for nothing. If a workspace is not trusted, it reads
// only its store. It omits what it cannot read.
package choices

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/servers"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
	"jp/profiles"
	"jp/profiles/alias"
)

// patience bounds the time for which For waits for the store's lock: a person is typing.
const patience = 30 * time.Millisecond

// limit bounds the number of conversations that are offered.
const limit = 100

// Choices lists the values of the workspace of one command.
type Choices struct {
	con *console.Console
	ws  *workspace.Workspace
	set *servers.Set
}

// New returns Choices. It reads nothing.
func New(con *console.Console, ws *workspace.Workspace, set *servers.Set) *Choices {
	return &Choices{con: con, ws: ws, set: set}
}

// For returns the values that begin with word for an argument that help calls arg: TARGET, PROFILE
// and so on. It makes the command quiet, so that it asks nobody and stores nothing.
func (c *Choices) For(ctx context.Context, arg, word string) []command.Candidate {
	c.con.Globals.Quiet, c.con.Globals.NonInteractive, c.con.Globals.NoPersist = true, true, true
	c.ws.Patience = patience
	var out []command.Candidate
	switch strings.TrimSuffix(strings.Trim(arg, "[]"), "...") {
	case "ID", "TARGET":
		out = c.conversations(ctx, word)
	case "MODEL":
		out = c.Models(ctx, func(string) bool { return true })
	case "PROFILE":
		out = c.profiles(ctx)
	case "TOOL":
		out = c.tools(ctx)
	case "LAUNCHER":
		out = c.launchers()
	case "SERVER":
		out = c.servers(ctx)
	case "KEY":
		out = settings("")
	case "KEY=VALUE":
		out = settings("=")
	case "X": // argument of --cfg
		out = slices.Concat([]command.Candidate{
			{Word: "NONE", Text: "start over: program defaults"},
			{Word: "WORKSPACE", Text: "start over: the config of this workspace"},
		},
			c.profiles(ctx), settings("="))
	}
	return slices.DeleteFunc(out, func(v command.Candidate) bool { return !strings.HasPrefix(v.Word, word) || !typeable(v.Word) })
}

// typeable reports whether a shell can insert a word without quotes. The name of a file could
// otherwise run a command.
func typeable(word string) bool {
	return word != "" && strings.IndexFunc(word, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:=@+", r))
	}) < 0
}

// conversations returns the latest conversations, and words such as recent. The beginning of an id
// finds hidden ones too.
func (c *Choices) conversations(ctx context.Context, word string) []command.Candidate {
	all := c.latest(ctx, len(word) > len("jp-c"))
	if all == nil {
		return nil
	}
	out := []command.Candidate{
		{Word: ".", Text: "this terminal's active conversation"},
		{Word: "previous", Text: "the one that was active before"},
		{Word: "recent", Text: "latest activity"},
		{Word: "newest", Text: "created last"},
	}
	for _, v := range all {
		out = append(out, command.Candidate{Word: v.ID.String(), Text: term.Cut(term.Line(v.Title), 60, true)})
	}
	return out
}

// latest returns the latest conversations; nil if the store cannot be read now.
func (c *Choices) latest(ctx context.Context, hidden bool) []convstore.Conversation {
	st, err := c.ws.Store(ctx)
	if err != nil {
		return nil
	}
	cs, err := st.List(ctx, convstore.Filter{Sort: convstore.SortActivity, Descending: true, Limit: limit, Hidden: hidden})
	if err != nil {
		return nil
	}
	return cs
}

func (c *Choices) profiles(ctx context.Context) []command.Candidate {
	found, err := profiles.Names(c.ws.TrustedSources(ctx))
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

func (c *Choices) tools(ctx context.Context) []command.Candidate {
	r, err := profiles.Resolve(c.ws.TrustedSources(ctx), nil, nil)
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

// launchers returns the launchers of the user's config.
func (c *Choices) launchers() []command.Candidate {
	m, err := c.ws.Machine()
	if err != nil {
		return nil
	}
	var out []command.Candidate
	for _, name := range slices.Sorted(maps.Keys(m.Launchers)) {
		out = append(out, command.Candidate{Word: name, Text: strings.Join(m.Launchers[name].Command, " ")})
	}
	return out
}

// servers returns the MCP servers of the user's config and of a trusted workspace.
func (c *Choices) servers(ctx context.Context) []command.Candidate {
	c.ws.Gate.PassUnasked(ctx)
	all, err := c.set.All(ctx)
	if err != nil {
		return nil
	}
	var out []command.Candidate
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, command.Candidate{Word: name, Text: all[name].Origin})
	}
	return out
}

// Models returns the aliases, the models in use (of the config and the latest conversations), and
// those of the built-in table. Of the table and of aliases that come with jp it returns those for
// which `which` returns true.
func (c *Choices) Models(ctx context.Context, which func(id string) bool) []command.Candidate {
	var out []command.Candidate
	seen := map[string]bool{"": true}
	add := func(model, text string) {
		if !seen[model] {
			seen[model] = true
			out = append(out, command.Candidate{Word: model, Text: text})
		}
	}
	if r, err := profiles.Resolve(c.ws.TrustedSources(ctx), nil, nil); err == nil {
		for _, name := range slices.Sorted(maps.Keys(r.Config.Providers.Aliases)) {
			if id := r.Config.Providers.Aliases[name]; id != alias.Builtin()[name] || which(id) {
				add(name, id)
			}
		}
		for _, name := range r.Config.Assistant.Named() {
			add(name, "model of the config")
		}
	}
	for _, v := range c.latest(ctx, true) {
		add(v.Model, "used before")
	}
	for _, id := range model.Known() {
		if which(id) {
			add(id, "known")
		}
	}
	return out
}

// HasKey reports whether a key for a model of the built-in table is set.
func (c *Choices) HasKey(id string) bool {
	provider, _, _ := strings.Cut(id, "/")
	b, ok := model.FindBuiltin(provider)
	return ok && c.con.Getenv(b.KeyEnv(c.con.Getenv)) != ""
}

// settings returns all keys of config, except those with a name in them.
func settings(after string) []command.Candidate {
	var out []command.Candidate
	for _, s := range profiles.Settings() {
		if !strings.Contains(s.Key, "<") {
			out = append(out, command.Candidate{Word: s.Key + after, Text: s.Doc})
		}
	}
	return out
}
