package review

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/trust"
	"jp/cmd/jp/internal/wording"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
	"jp/profiles"
	"jp/profiles/tomldoc"
	"jp/tools"
	"jp/tools/period"
)

// Unshown refuses a config if files of the workspace give it a tool, or a setting, that was not on
// the page on which a person trusted the workspace. defs are the tools that r enables; the
// tools that it gives only to sub-agents of llm_query count, too. The person may change by flags
// what was shown, and so may files of their own. If r has a stored config, it is that of the
// conversation of, which goes on with the tools that it had.
func Unshown(ws *workspace.Workspace, r *profiles.Resolved, files map[string]tools.Definition, defs []tools.Definition, of convstore.Conversation) error {
	shown, all := ws.Gate.Shown()
	if all {
		return nil
	}
	files, err := enabled.WithSpecializations(r, files)
	if err != nil {
		return err
	}
	c := check{ws: ws, r: r, files: files, shown: shown, had: had(of)}
	for _, d := range withLent(r, files, defs) {
		if !c.tool(d) {
			return c.refusal("tool "+d.Name, r.Tools[d.Name].Pos(""))
		}
	}
	for _, b := range c.values() {
		if _, _, ok := ofTool(b.Key); !ok && loosens(b) && !shown.HasSetting(b.Key, b.Value.Value) {
			return c.refusal(b.Key, b.Origin)
		}
	}
	return nil
}

// withLent returns defs with the tools that r gives only to sub-agents of llm_query.
func withLent(r *profiles.Resolved, files map[string]tools.Definition, defs []tools.Definition) []tools.Definition {
	for _, name := range r.Config.Delegation.LLMQuery.Tools {
		if t, ok := r.Tools[name]; ok && name != "*" && !tools.Enabled(t.Values) {
			if d, err := enabled.Define(name, r, files); err == nil { // else nobody can use it
				defs = append(defs[:len(defs):len(defs)], d)
			}
		}
	}
	return defs
}

// check is one comparison of a config with what was shown.
type check struct {
	ws      *workspace.Workspace
	r       *profiles.Resolved
	files   map[string]tools.Definition
	shown   trust.Shown
	had     *trust.Shown       // see had
	brought []profiles.Brought // nil = not looked up yet
}

func (c *check) values() []profiles.Brought {
	if c.brought == nil {
		c.brought = broughtBy(c.r)
	}
	return c.brought
}

// tool reports whether d may run. A tool about which files of the workspace say nothing is the
// user's own. Any other must have been shown: as it is, or as it would be without the person's
// flags, or by the values that the workspace gives to a tool that it does not define itself, see
// claimed.
func (c *check) tool(d tools.Definition) bool {
	fromFile, brings := tools.FromFile(d.Name, c.r.Tools[d.Name].Values, c.files), c.r.Brings(d.Name)
	has := c.shown.HasTool
	if !brings {
		if !fromFile {
			return true
		}
		has = c.goesOn
	}
	if has(d) {
		return true
	}
	if without, ok := c.by(c.r.Unflagged(d.Name), d, fromFile); ok && has(without) {
		return true
	}
	return !fromFile && c.claimed(d.Name) || c.own(d)
}

// claimed reports whether a tool may run that the user enables and to which the workspace gives only
// values that were shown together: those of one file that --cfg names, with what it extends, beside
// those of .jp/config.toml. Nobody knows who said what a stored config says: it must say nothing of
// the tool but that it is enabled.
func (c *check) claimed(tool string) bool {
	about := func(key string) (rest string, ok bool) {
		name, rest, ok := ofTool(key)
		return rest, ok && (name == tool || name == "*")
	}
	named := ""
	for _, b := range c.values() {
		key, ok := about(b.Key)
		if !ok {
			continue
		}
		file := c.named(b.Origin.File)
		if defines(key) || !c.shown.HasSetting(b.Key, b.Value.Value) || file != "" && named != "" && file != named {
			return false
		}
		named = cmp.Or(file, named)
	}
	return c.r.Claims(tool) && !slices.ContainsFunc(c.r.Keys(), func(v profiles.Value) bool {
		key, ok := about(v.Key)
		return ok && key != "enable" && v.Origin.Layer == "stored config" && !c.stands(v)
	})
}

// stands reports whether the user's config or .jp/config.toml says now what a stored config says.
func (c *check) stands(v profiles.Value) bool {
	return slices.ContainsFunc(c.r.Origin(v.Key), func(o profiles.Origin) bool {
		return (o.Kind == profiles.UserLayer || o.Kind == profiles.WorkspaceLayer && c.shown.HasSetting(v.Key, v.Value)) && reflect.DeepEqual(o.Value, v.Value)
	})
}

// named returns the file of --cfg that is a file, or extends it; "" = none.
func (c *check) named(file string) (name string) {
	for _, l := range slices.Backward(c.r.Layers) {
		switch {
		case l.Kind != profiles.FileLayer:
			name = ""
		case l.Via == "":
			name = l.File
		}
		if l.File == file && !l.Dropped {
			return name
		}
	}
	return ""
}

// goesOn reports whether a tool of .jp/tools may run about which no file of the workspace says more.
// All that its file permits is shown. A person may say more of it, but what a stored config says
// was about the tool that had its name then: it must have been shown too, or be what the
// conversation had.
func (c *check) goesOn(d tools.Definition) bool {
	switch {
	case c.shown.HasTool(d), c.had != nil && c.had.HasTool(d):
		return true
	case !c.shown.HasReach(d):
		return false
	case c.had == nil:
		return true
	}
	said, ok := c.by(c.said(d.Name), d, true)
	return ok && tools.StricterPermissions(said.Permissions(), d.Permissions()) == d.Permissions()
}

// said returns what the tables of a tool and of all tools say of permissions, without what a stored
// config says of them.
func (c *check) said(tool string) map[string]profiles.Table {
	tables := map[string]profiles.Table{}
	for _, name := range []string{tool, "*"} {
		values := map[string]any{}
		for _, key := range []string{"run", "result", "detached.run", "detached.deliver", "detached.tool"} {
			parts := strings.Split(key, ".")
			for _, o := range c.r.Origin(tomldoc.JoinKey(append([]string{"conversation", "tools", name}, parts...))) {
				if !o.Dropped && o.Kind != profiles.StoredLayer {
					tomldoc.Merge(values, parts, o.Value)
				}
			}
		}
		if len(values) > 0 {
			tables[name] = profiles.Table{Values: values, Pos: c.r.Tools[name].Pos}
		}
	}
	return tables
}

// by returns the tool d as it is with other tables; ok is false if they give none.
func (c *check) by(tables map[string]profiles.Table, d tools.Definition, fromFile bool) (_ tools.Definition, ok bool) {
	if fromFile {
		t := tables[d.Name]
		if t.Values == nil {
			t = profiles.Table{Values: map[string]any{}, Pos: c.r.Tools[d.Name].Pos}
		}
		t.Values["source"] = d.Declared()
		tables[d.Name] = t
	}
	if _, ok := tables[d.Name]; !ok {
		return d, false
	}
	d, err := enabled.DefineBy(tables, d.Name, c.r, c.files)
	return d, err == nil
}

// own reports whether the user's own config, without the workspace, gives a tool that can do
// all that d can do.
func (c *check) own(d tools.Definition) bool {
	r, err := profiles.Resolve(c.ws.SourcesOf(nil), nil, nil)
	if err != nil {
		return false // a broken config gives nothing
	}
	if t, ok := r.Tools[d.Name]; !ok || !tools.Enabled(t.Values) {
		return false
	}
	files, err := enabled.WithSpecializations(r, nil)
	if err != nil {
		return false
	}
	var own trust.Shown
	if o, err := enabled.Define(d.Name, r, files); err == nil {
		own.AddTool(o)
	}
	return own.HasTool(d)
}

// refusal is the error for something that was not shown, written at a place.
func (c *check) refusal(what string, at profiles.Position) error {
	if place := c.ws.Relative(at.String()); place != "" {
		what += " (" + place + ")"
	}
	f := &exit.Error{Code: "untrusted", Status: exit.Refused, Msg: fmt.Sprintf("workspace %s: not on the page that was trusted: %s", c.ws.Found(), what)}
	named := ""
	for _, l := range c.r.Layers {
		switch {
		case l.Dropped:
		case l.Kind == profiles.StoredLayer:
			return f.WithHint("`jp query --new` begins a conversation with the present config; `jp trust --show` says what is trusted")
		case l.Kind == profiles.ResetLayer && (l.Name == "--cfg NONE" || l.Name == "--cfg WORKSPACE"):
			named += " " + l.Name
		case l.Kind == profiles.FileLayer && l.Via == "":
			named += " --cfg " + wording.ShellWord(c.ws.Relative(l.File))
		}
	}
	return f.WithHint("`jp trust%s` shows it and asks", named)
}

// broughtBy returns what files of the workspace give a config, as the page shows it.
func broughtBy(r *profiles.Resolved) []profiles.Brought {
	list := r.Brought()
	for i := range list {
		if b := &list[i]; b.Key == "delegation.max_depth" {
			for _, v := range []*any{&b.Own, &b.Value.Value} {
				if *v == nil {
					*v = int64(1)
				}
			}
		}
	}
	return list
}

// ofTool takes the key of a value in a tool's table apart; ok is false for every other key.
func ofTool(key string) (name, rest string, ok bool) {
	parts, ok := tomldoc.SplitKey(key)
	if !ok || len(parts) < 4 || parts[0] != "conversation" || parts[1] != "tools" {
		return "", "", false
	}
	return parts[2], strings.Join(parts[3:], "."), true
}

// defines reports whether a key of a tool's table says what the tool runs.
func defines(key string) bool {
	first, _, _ := strings.Cut(key, ".")
	return first == "source" || first == "command"
}

// loosens reports whether a setting that is not of a tool lets an agent do or spend more than its
// value without the workspace, or names another model, other agents or another machine.
func loosens(b profiles.Brought) bool {
	key, v, own := b.Key, b.Value.Value, b.Own
	switch {
	case reflect.DeepEqual(v, own):
		return false
	case strings.HasPrefix(key, "providers.llm.aliases."), key == "assistant.model", key == "assistant.escalate", key == "conversation.title.model", key == "conversation.compact.model",
		key == "delegation.context_tool", key == "delegation.llm_query.tools", key == "delegation.profiles": // not set = none
		return v != nil
	case key == "delegation.models", key == "delegation.reasoning", key == "delegation.expire", key == "launcher": // not set = any, never, here
		return true
	case key == "delegation.enabled":
		return v == true
	case key == "style.tool_call.show":
		return v == false
	case strings.HasPrefix(key, "assistant.parameters."):
		return key != "assistant.parameters.temperature"
	case strings.HasPrefix(key, "assistant.request."):
		none := v == int64(0) || v == "0s" || v == "0"
		return above(v, own) || none && strings.Contains(key, "timeout")
	case key == "conversation.context_window": // 0 = no limit
		return v == int64(0) || own != int64(0) && above(v, own)
	case key == "conversation.compact.window": // 0 = that of the model
		return v == int64(0) || above(v, own)
	case key == "conversation.compact.mode":
		return v == "off"
	case strings.HasPrefix(key, "delegation."), key == "conversation.max_turns", key == "conversation.tools.parallel", key == "conversation.compact.threshold":
		return above(v, own)
	}
	return false
}

// above reports whether a limit allows more than its default does.
func above(v, def any) bool {
	if v == "unlimited" || def == "unlimited" {
		return v != def && v == "unlimited"
	}
	a, isLimit := quantity(v)
	b, hasDefault := quantity(def)
	return isLimit && hasDefault && a > b
}

// quantity returns a number or a duration as a number.
func quantity(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case string:
		d, err := period.Parse(v)
		return float64(d), err == nil
	}
	return 0, false
}
