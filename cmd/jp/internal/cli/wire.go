package cli

import (
	"context"
	"sort"

	"jp/profiles"
	"jp/tools"
)

// definitions is where profiles meet tools, for every command: the tools that a resolved config enables, sorted by name.
// A table that names a known tool (one that jp brings along, or a file of .jp/tools) changes that; one that gives another
// source, or a name that nobody knows, defines its own.
func (a *app) definitions(ctx context.Context, r *profiles.Resolved) ([]tools.Definition, error) {
	files, err := a.ws.Gate.Tools(ctx)
	if err != nil {
		return nil, err
	}
	defs, err := definitions(r, files)
	if err != nil {
		return nil, err
	}
	return a.mcp.Pinned(ctx, defs)
}

// definitions joins a config to the definitions in files of their own.
func definitions(r *profiles.Resolved, files map[string]tools.Definition) ([]tools.Definition, error) {
	var names []string
	for name, t := range r.Tools {
		if name != "*" && tools.Enabled(t.Values) {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	files, err := withSpecializations(r, files)
	if err != nil {
		return nil, err
	}
	defs := make([]tools.Definition, 0, len(names))
	for _, name := range names {
		d, err := defined(name, r, files)
		if err != nil {
			return nil, err
		}
		defs = append(defs, d)
	}
	return defs, nil
}

// defined is the definition of one tool that a config enables.
func defined(name string, r *profiles.Resolved, files map[string]tools.Definition) (tools.Definition, error) {
	t := r.Tools[name]
	d, err := tools.Define(name, t.Values, position(t), files)
	if err != nil {
		return d, err
	}
	if all, ok := r.Tools["*"]; ok {
		if d, err = d.WithDefaults(all.Values, position(all)); err != nil {
			return d, err
		}
	}
	if d.Source == tools.SourceDelegation && !d.Local() {
		switch name {
		case "jp_query":
			return d.WithEnum("config", r.Config.Delegation.Profiles)
		case "jp_batch_query":
			return d.WithEnum("queries.config", r.Config.Delegation.Profiles)
		}
	}
	return d, nil
}

func position(t profiles.Table) func(string) string {
	return func(key string) string { return t.Pos(key).String() }
}

// toolNames lists the names of definitions.
func toolNames(defs []tools.Definition) []string {
	names := make([]string, len(defs))
	for i, d := range defs {
		names[i] = d.Name
	}
	return names
}
