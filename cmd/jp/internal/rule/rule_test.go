package rule

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"jp/convstore"
)

const (
	toolQuery    = "jp_query"
	toolBatch    = "jp_batch_query"
	toolLLMQuery = "llm_query"

	root     = convstore.ID(1)
	child    = convstore.ID(2)
	stranger = convstore.ID(9)
)

var now = time.Unix(1_700_000_000, 0)

// standing is a caller at a depth, with a grant when it is not a root.
func standing(depth, ceiling int, granted []string) convstore.Standing {
	s := convstore.Standing{Caller: convstore.Conversation{ID: root, Depth: depth}}
	if depth > 0 {
		s.Caller.Grant = &convstore.Grant{Tools: granted, MaxDepth: ceiling, Deadline: now.Add(time.Minute)}
	}
	s.Lookup = func(id convstore.ID) (convstore.Conversation, error) {
		if id == child {
			return convstore.Conversation{ID: child, Depth: depth + 1, Profile: "agent/researcher",
				Grant: &convstore.Grant{Tools: []string{"fs_read_file", "fs_create_file"}, MaxDepth: depth + 1}}, nil
		}
		return convstore.Conversation{}, &convstore.ScopeError{ID: id, Root: root}
	}
	return s
}

func researcher(maxDepth int, tools ...string) Profile {
	p := Profile{Name: "agent/researcher", Arg: "builtin:agent/researcher", Config: convstore.Config{Tools: tools}, MaxDepth: maxDepth}
	for _, t := range tools {
		source := "builtin"
		if t == toolQuery {
			source = "delegation"
		}
		p.Tools = append(p.Tools, Tool{Name: t, Source: source})
	}
	return p
}

func caller(tools ...string) Caller {
	return Caller{Tools: tools, Limits: Limits{MaxDepth: 1, MaxPerTurn: 5, MaxChildren: 64, Timeout: 10 * time.Minute, Profiles: []string{"agent/researcher"}}}
}

// TestDecideEveryCombination walks depth, ceiling, tool, profile and target and compares with the
// rule said again as plain conditions.
func TestDecideEveryCombination(t *testing.T) {
	n := 0
	for depth := range 7 {
		for ceiling := range 7 {
			for _, configured := range []int{0, 1, 3, 9} {
				for _, holds := range []bool{true, false} {
					for _, granted := range []bool{true, false} {
						for _, listed := range []bool{true, false} {
							for _, id := range []convstore.ID{0, child, stranger} {
								n++
								tools := []string{"fs_read_file"}
								if granted {
									tools = append(tools, toolQuery)
								}
								s := standing(depth, ceiling, tools)
								c := caller("fs_read_file")
								if holds {
									c.Tools = append(c.Tools, toolQuery)
								}
								c.Limits.MaxDepth = configured
								if !listed {
									c.Limits.Profiles = nil
								}
								most := min(depth+configured, 5)
								if depth > 0 {
									most = min(most, ceiling)
								}
								want := Code("")
								switch {
								case id == stranger:
									want = "scope"
								case depth+1 > most:
									want = CodeDepth
								case !holds || depth > 0 && !granted:
									want = CodeTool
								case !listed:
									want = CodeProfile
								}
								got, err := decide(s, c, Ask{Call: "c", Tool: toolQuery, ID: id, Deadline: now.Add(time.Minute), Profile: researcher(9, "fs_read_file", "fs_create_file", "jp_query")})
								if code := codeOf(err); code != want {
									t.Fatalf("Decide(depth %d, ceiling %d, configured %d, holds %v, granted %v, listed %v, id %v) = %q (%v), want %q",
										depth, ceiling, configured, holds, granted, listed, id, code, err, want)
								}
								if err != nil {
									continue
								}
								if got.Grant.MaxDepth > most || got.Grant.MaxDepth > DepthCeiling {
									t.Fatalf("granted depth %d above %d", got.Grant.MaxDepth, most)
								}
								for _, tool := range got.Grant.Tools {
									if depth > 0 && !slices.Contains(tools, tool) {
										t.Fatalf("granted %s, which the caller does not hold", tool)
									}
								}
								if !got.Grant.Deadline.Equal(now.Add(time.Minute)) || got.Grant.Timeout != 10*time.Minute {
									t.Fatalf("granted %v, %v, want the caller's deadline and the limit of one child", got.Grant.Deadline, got.Grant.Timeout)
								}
							}
						}
					}
				}
			}
		}
	}
	if n < 1000 {
		t.Fatalf("walked %d combinations", n)
	}
}

// decide is Decide of one ask.
func decide(s convstore.Standing, c Caller, a Ask) (convstore.Child, error) {
	v := Decide(s, c, []Ask{a})[0]
	return v.Child, v.Err
}

func codeOf(err error) Code {
	var r *Refusal
	var sc *convstore.ScopeError
	switch {
	case errors.As(err, &r):
		return r.Code
	case errors.As(err, &sc):
		return "scope"
	case err != nil:
		return Code(fmt.Sprintf("error %v", err))
	}
	return ""
}

func TestDecideCounts(t *testing.T) {
	c := caller(toolQuery)
	c.Limits.MaxChildren = 3
	ask := Ask{Call: "c", Tool: toolQuery, Profile: researcher(0)}
	for used, want := range []Code{"", "", "", "", "", CodeCalls, CodeCalls} {
		s := standing(0, 0, nil)
		s.Calls = used
		if _, err := decide(s, c, ask); codeOf(err) != want {
			t.Errorf("%d calls used: %v, want %q", used, err, want)
		}
		s.Calls = 0
		together := make([]Ask, used+1)
		for i := range together {
			together[i] = ask
		}
		c := c
		c.Limits.MaxChildren = 64
		if err := Decide(s, c, together)[used].Err; codeOf(err) != want {
			t.Errorf("%d calls admitted together: %v, want %q", used, err, want)
		}
	}
	for made, want := range []Code{"", "", "", CodeChildren} {
		s := standing(0, 0, nil)
		s.Children = made
		if _, err := decide(s, c, ask); codeOf(err) != want {
			t.Errorf("%d children made: %v, want %q", made, err, want)
		}
		follow := ask
		follow.ID = child
		if _, err := decide(s, c, follow); err != nil {
			t.Errorf("follow-up with %d children made: %v", made, err)
		}
	}
}

func TestDecideFollowUpKeepsTheGrant(t *testing.T) {
	c := caller(toolQuery)
	got, err := decide(standing(0, 0, nil), c, Ask{Call: "c", Tool: toolQuery, ID: child, Profile: researcher(4, "fs_read_file", "fs_modify_file")})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"fs_read_file", "fs_create_file"}; !slices.Equal(got.Grant.Tools, want) {
		t.Errorf("tools = %v, want what it was granted: %v", got.Grant.Tools, want)
	}
	if got.Config.JSON != nil || got.ProfileHash != "" || got.ProfileArg != "" {
		t.Errorf("a child that goes on was given the config of today: %+v", got)
	}
	if got.Grant.MaxDepth != 1 {
		t.Errorf("max depth = %d, want 1", got.Grant.MaxDepth)
	}
	other := researcher(0)
	other.Name = "agent/planner"
	c.Limits.Profiles = append(c.Limits.Profiles, "agent/planner")
	if _, err := decide(standing(0, 0, nil), c, Ask{Call: "c", Tool: toolQuery, ID: child, Profile: other}); codeOf(err) != CodeProfile {
		t.Errorf("follow-up under another profile: %v, want a refusal", err)
	}
}

func TestDecideCutsToTheRole(t *testing.T) {
	p := researcher(0)
	p.Tools = []Tool{
		{Name: "fs_read_file", Source: "builtin"}, {Name: "wc", Source: "local"}, {Name: "ask_user", Source: "interactive"}, {Name: "odd", Source: "new"}, {Name: "unsaid"},
	}
	got, err := decide(standing(0, 0, nil), caller(toolQuery), Ask{Call: "c", Tool: toolQuery, Profile: p})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"fs_read_file", "wc"}; !slices.Equal(got.Grant.Tools, want) || got.Role != "subagent" {
		t.Errorf("granted %v as %q, want %v as a sub-agent", got.Grant.Tools, got.Role, want)
	}
	if got.ToolsTotal != 5 || got.ToolsDenied != 3 {
		t.Errorf("%d of %d tools denied, want 3 of 5", got.ToolsDenied, got.ToolsTotal)
	}
}

func TestRefusalsAreTheSameBytes(t *testing.T) {
	ask := Ask{Call: "c", Tool: toolQuery, Profile: researcher(0)}
	for _, s := range []convstore.Standing{standing(1, 1, []string{toolQuery}), standing(5, 9, []string{toolQuery})} {
		_, a := decide(s, caller(toolQuery), ask)
		_, b := decide(s, caller(toolQuery), ask)
		if a == nil || b == nil || a.Error() != b.Error() {
			t.Errorf("refusals differ: %v / %v", a, b)
		}
	}
}

// TestDecideByWhatAToolIs: the name of a tool that the caller holds grants no other tool.
func TestDecideByWhatAToolIs(t *testing.T) {
	s := standing(1, 3, []string{toolQuery, "fs_read_file"})
	s.Caller.Grant.Authority = map[string]string{toolQuery: "q", "fs_read_file": "reads"}
	p := researcher(0, "fs_read_file")
	for is, want := range map[string][]string{"reads": {"fs_read_file"}, "runs a shell": {}, "": {}} {
		p.Tools[0].Authority = is
		got, err := decide(s, caller(toolQuery), Ask{Call: "c", Tool: toolQuery, Profile: p})
		if err != nil || !slices.Equal(got.Grant.Tools, want) {
			t.Errorf("fs_read_file that %q = %v, %v, want %v", is, got.Grant.Tools, err, want)
		}
	}
}

// TestDecideSession: the limits of a session hold whatever the config of the caller says now. A
// child's own profile does not raise those of its tree.
func TestDecideSession(t *testing.T) {
	for name, test := range map[string]struct {
		depth       int
		session     convstore.Limits
		calls, made int
		want        Code
	}{
		"no more children":    {1, convstore.Limits{Children: 1}, 0, 1, CodeChildren},
		"no more calls":       {0, convstore.Limits{Children: 9, Calls: some(1)}, 1, 0, CodeCalls},
		"more calls":          {0, convstore.Limits{Children: 9, Calls: some(7)}, 6, 0, ""},
		"calls of a child":    {1, convstore.Limits{Children: 9, Calls: some(1)}, 1, 0, ""},
		"no level":            {0, convstore.Limits{Children: 9, Depth: some(0)}, 0, 0, CodeDepth},
		"no level of a child": {1, convstore.Limits{Children: 9, Depth: some(1)}, 0, 0, CodeDepth},
		"levels":              {1, convstore.Limits{Children: 9, Depth: some(2)}, 0, 0, ""},
		"nothing set":         {0, convstore.Limits{Children: 9}, 5, 0, CodeCalls},
	} {
		s := standing(test.depth, 3, []string{toolQuery})
		if test.depth > 0 {
			s.Ancestors = []convstore.Conversation{{ID: 3}}
		}
		s.Account.Limits, s.Calls, s.Children = &test.session, test.calls, test.made
		c := caller(toolQuery)
		c.Limits.MaxChildren = 1000
		got, err := decide(s, c, Ask{Call: "c", Tool: toolQuery, Profile: researcher(3)})
		if codeOf(err) != test.want {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		} else if d := test.session.Depth; err == nil && d != nil && got.Grant.MaxDepth != int(*d) {
			t.Errorf("%s: granted depth %d, want %d", name, got.Grant.MaxDepth, *d)
		}
	}
	s := standing(0, 0, nil)
	s.Account.Limits = &convstore.Limits{Children: 9, Depth: some(3)}
	if got, err := decide(s, caller(toolQuery), Ask{Call: "c", Tool: toolQuery, Profile: researcher(9)}); err != nil || got.Grant.MaxDepth != 3 {
		t.Errorf("granted depth %d, %v, want that of the session, 3", got.Grant.MaxDepth, err)
	}
}

func TestDecideGoesOn(t *testing.T) {
	s := standing(0, 0, nil)
	lookup := s.Lookup
	s.Lookup = func(id convstore.ID) (convstore.Conversation, error) {
		c, err := lookup(id)
		c.Turns = 2
		return c, err
	}
	for turn, busy := range map[int]bool{0: false, 1: true, 2: false, 3: false} {
		v := Decide(s, caller(toolQuery), []Ask{{Call: "c", Tool: toolQuery, ID: child, Profile: researcher(0), Turn: turn}})[0]
		if errors.As(v.Err, new(*convstore.BusyError)) != busy || !busy && v.Err != nil {
			t.Errorf("turn %d: %v", turn, v.Err)
		}
	}
}
