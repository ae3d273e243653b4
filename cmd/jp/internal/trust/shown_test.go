package trust

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"jp/tools"
)

func TestShown(t *testing.T) {
	tool := func(name, command string, keys map[string]any) tools.Definition {
		table := map[string]any{"source": "local", "description": "x", "command": command}
		for key, v := range keys {
			table[key] = v
		}
		d, err := tools.Decode(name, table, nil)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	var s Shown
	s.AddTool(tool("t", "true", nil))
	s.AddTool(tool("t", "false", map[string]any{"run": "unattended"}))
	endless := tool("endless", "true", nil)
	endless.Options = map[string]any{"x": math.Inf(1)}
	s.AddTool(endless)
	for _, c := range []struct {
		what       string
		d          tools.Definition
		has, reach bool
	}{
		{"the same", tool("t", "true", nil), true, true},
		{"other words", tool("t", "true", map[string]any{"description": "y", "timeout": "5s"}), true, true},
		{"stricter", tool("t", "true", map[string]any{"run": "deny", "result": "ask"}), true, true},
		{"looser", tool("t", "true", map[string]any{"run": "unattended"}), false, true},
		{"with nobody to ask", tool("t", "true", map[string]any{"detached": "auto"}), false, true},
		{"another of the name", tool("t", "false", map[string]any{"run": "unattended"}), true, true},
		{"stricter than the other", tool("t", "false", nil), true, true},
		{"another command", tool("t", "true x", nil), false, false},
		{"more network", tool("t", "true", map[string]any{"network": "any"}), false, false},
		{"options", tool("t", "true", map[string]any{"options": map[string]any{"host": "a"}}), false, false},
		{"another name", tool("u", "true", nil), false, false},
		{"of unknown authority", endless, false, false},
	} {
		if has, reach := s.HasTool(c.d), s.HasReach(c.d); has != c.has || reach != c.reach {
			t.Errorf("%s: HasTool = %v, HasReach = %v, want %v, %v", c.what, has, reach, c.has, c.reach)
		}
	}

	s.AddSetting("a", int64(1))
	s.AddSetting("a", []any{"x"})
	for _, c := range []struct {
		key   string
		value any
		want  bool
	}{{"a", int64(1), true}, {"a", []any{"x"}, true}, {"a", int64(2), false}, {"b", int64(1), false}, {"a", "1", false}} {
		if got := s.HasSetting(c.key, c.value); got != c.want {
			t.Errorf("HasSetting(%s, %v) = %v", c.key, c.value, got)
		}
	}

	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var read Shown
	if err := json.Unmarshal(data, &read); err != nil || !reflect.DeepEqual(read, s) {
		t.Errorf("%+v, %v, want %+v", read, err, s)
	}

	var before, after Shown
	before.AddTool(tool("t", "true", nil))
	after.AddTool(tool("t", "true", nil))
	after.AddTool(tool("u", "true", nil))
	after.AddSetting("b", true)
	sum := Shown{}
	sum = sum.Plus(before, after)
	if !sum.HasTool(tool("u", "true", nil)) || !sum.HasSetting("b", true) || sum.HasTool(tool("t", "true", nil)) || !after.Has(sum) || before.Has(sum) {
		t.Errorf("%+v, want what after has and before lacks", sum)
	}

	// Of the page, too: what another process has changed meanwhile is not counted as shown.
	base := Shown{Page: map[string][]string{"a": {"1", "2"}, "b": {"3"}}}
	before.Page, after.Page = map[string][]string{"a": {"1", "2", "x"}, "b": {"3"}}, map[string][]string{"a": {"1", "x", "4"}, "c": {"5"}}
	if got, want := base.Plus(before, after).Page, map[string][]string{"a": {"1", "4"}, "b": {}, "c": {"5"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("page %q, want %q", got, want)
	}
	unknown := Shown{}
	if got := unknown.Plus(before, after).Page; got != nil {
		t.Errorf("page %q, of which nothing is known", got)
	}
	base.SetPage(map[string][]string{"a": {strings.Repeat("x", maxPage)}})
	if base.Page != nil {
		t.Error("a page that is too long was kept")
	}
}
