package rule

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"jp/convstore"
	"jp/profiles/role"
)

const toolReview = "llm_tool_review"

// review is the ask of a specialization.
func review(id convstore.ID) Ask {
	p := researcher(9, "fs_read_file")
	p.Name, p.Arg = toolReview, "/ws/.jp/specializations.ini#llm_tool_review"
	return Ask{Call: "c", Tool: toolReview, ID: id, Profile: p, Fixed: true, Sticky: toolReview + "/s"}
}

// TestPolicy: cases S3 of the conformance table, in our words: scope subquery is a caller with a
// grant. Not taken over are the cases of the script bridge and of the RPC server (there is
// neither), and "root script" (a tool that runs jp comes through the same rule). That ordinary
// tools run in a sub-agent, and that nothing runs deeper than it may, is tested with real agents
// (testdata/script/specialization.txtar).
//
// Cases S2 (registration, query) are in testdata/script/specialization.txtar: two sections are two
// tools; a section that has gone takes its tool along; no file, no tools; session, skill and window
// reach the sub-agent, the skill's text its prompt; its calls and answers are no rows of its
// caller. Not taken over: skills of the parent (NONE wins: only the one that is named), upserts
// into a table of tools (there is none), null databases and executors (they cannot be made), a
// session that is empty becoming "query" (it is an error here), options of scope and depth (nobody
// passes them: the store knows).
//
// Of cases R2: a full house queues and results keep the order of the calls (specialization.txtar);
// a failure stays alone, text beyond the inline bound, an empty result said as such, bad arguments
// (delegation*.txtar, end_test.go). Not taken over: 12 hexadecimal ids, a limit of 0 at once (at
// least one runs; a limit of 0 calls refuses), texts of an empty listing (a JSON list), floors of
// iterations guessed from the task's words, lineage and result keys, worker markers, cancelling by
// a tool (there are none of these here).
func TestPolicy(t *testing.T) {
	tests := []struct {
		name           string
		depth, ceiling int
		holds          []string // nil = the tool that is called
		ask            Ask
		want           Code
	}{
		{"root calls a specialization", 0, 0, nil, review(0), ""},
		{"root calls llm_query", 0, 0, nil, Ask{Tool: toolLLMQuery, Fixed: true, Profile: Profile{Name: toolLLMQuery}}, ""},
		{"sub-agent calls llm_query", 1, 1, nil, Ask{Tool: toolLLMQuery, Fixed: true, Profile: Profile{Name: toolLLMQuery}}, CodeDepth},
		{"sub-agent calls a specialization", 1, 1, nil, review(0), CodeDepth},
		{"sub-agent of a deeper tree does not hold it", 1, 3, []string{"fs_read_file"}, review(0), CodeTool},
		{"depth 2", 2, 2, nil, review(0), CodeDepth},
		{"depth 5", 5, 9, nil, review(0), CodeDepth},
		{"root does not hold it", 0, 0, []string{toolQuery}, review(0), CodeTool},
		{"root goes on with a stranger", 0, 0, nil, review(stranger), "scope"},
		{"its child under another tool", 0, 0, nil, review(child), CodeProfile},
		{"jp_query names its profile", 0, 0, nil, Ask{Tool: toolQuery, Profile: Profile{Name: toolReview}}, CodeProfile},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			holds := tt.holds
			if holds == nil {
				holds = []string{tt.ask.Tool}
			}
			tt.ask.Call = "c"
			got, err := decide(standing(tt.depth, tt.ceiling, holds), caller(holds...), tt.ask)
			if code := codeOf(err); code != tt.want {
				t.Fatalf("Decide = %q (%v), want %q", code, err, tt.want)
			}
			if err == nil && got.Grant.MaxDepth != tt.depth+1 {
				t.Errorf("granted depth %d at depth %d: want a leaf", got.Grant.MaxDepth, tt.depth+1)
			}
		})
	}
}

func TestDecideSpecialization(t *testing.T) {
	c := caller(toolReview)
	c.Limits.MaxDepth = 5
	c.Limits.Profiles = nil
	got, err := decide(standing(0, 0, nil), c, review(0))
	if err != nil {
		t.Fatal(err)
	}
	if got.Kind != "specialization" || got.Labels["specialization"] != "llm_tool_review/s" || !got.Hidden || got.Role != "subagent" ||
		got.Profile != toolReview || !slices.Equal(got.Grant.Tools, []string{"fs_read_file"}) || got.Grant.MaxDepth != 1 {
		t.Errorf("admitted %+v", got)
	}
	// What is in its profile may be more than its caller holds.
	s := standing(1, 4, []string{toolReview})
	got, err = decide(s, caller(toolReview), review(0))
	if err != nil || len(got.Grant.Tools) != 0 || got.Grant.MaxDepth != 2 {
		t.Errorf("granted %+v, %v: want no tool and no depth", got.Grant, err)
	}
}

func TestAskPresent(t *testing.T) {
	made := []convstore.Conversation{{ID: 7, Profile: "other"}, {ID: 8, Profile: toolReview}, {ID: 9, Profile: toolReview}}
	s := convstore.Standing{Labelled: func(key, value string) ([]convstore.Conversation, error) {
		if key != "specialization" || value != "llm_tool_review/s" {
			return nil, fmt.Errorf("asked for %s=%s", key, value)
		}
		return made, nil
	}}
	// Somebody may have put the label on another child: the profile must fit too. Of two the older
	// one counts.
	if a, err := review(0).Present(s); err != nil || a.ID != 8 {
		t.Errorf("goes on with %v, %v, want 8", a.ID, err)
	}
	made = made[:1]
	if a, err := review(0).Present(s); err != nil || a.ID != 0 {
		t.Errorf("goes on with %v, %v, want a new one", a.ID, err)
	}
	if a, err := (Ask{ID: 3}).Present(s); err != nil || a.ID != 3 {
		t.Errorf("goes on with %v, %v, want 3", a.ID, err)
	}
}

// FuzzPolicy: whatever is asked, by whom and from where, what is forbidden is refused, what is
// granted is within what the caller has, and the same input gives the same bytes.
func FuzzPolicy(f *testing.F) {
	add := func(tool string, source uint8, depth, ceiling, configured int8, bits, used uint8) {
		f.Add(tool, source, depth, ceiling, configured, bits, used)
	}
	add(toolLLMQuery, 0, 1, 1, 1, 0xff, 0)
	add("llm_tool_foo", 0, 1, 1, 1, 0xff, 0)
	add("llm_tool_reviewer", 0, 2, 2, 1, 0xff, 0)
	add("llm_tool_reviewer", 0, 0, 0, 1, 0xff, 0)
	add(toolQuery, 0, 0, 0, 1, 0xff, 4)
	add("fs_read_file", 1, -4, 8, 9, 0x0f, 200)
	add("ask_user", 4, 1, 5, 5, 0xf7, 1)
	sources := []string{"delegation", "builtin", "local", "conversation", "interactive", "mcp.x", "mcp", "new", ""}
	f.Fuzz(func(t *testing.T, tool string, source uint8, depth, ceiling, configured int8, bits, used uint8) {
		bit := func(n int) bool { return bits>>n&1 == 1 }
		held := map[string]string{"fs_read_file": "builtin", tool: sources[int(source)%len(sources)]}
		names := []string{"fs_read_file", tool}
		if tool == "fs_read_file" {
			names = names[:1]
		}
		fixed, sticky := bit(0) && tool != toolQuery, bit(1)
		p := Profile{Name: "agent/researcher", MaxDepth: int(configured)}
		for _, name := range names {
			p.Tools = append(p.Tools, Tool{Name: name, Source: held[name]})
		}
		if fixed {
			p.Name = tool
		}
		ask := Ask{Call: "c", Tool: tool, Profile: p, Fixed: fixed}
		if fixed && sticky {
			ask.Sticky = tool + "/s"
		}
		if bit(2) {
			ask.ID = []convstore.ID{child, stranger}[used&1]
		}
		c := caller("jp_conversation_list")
		if bit(3) {
			c.Tools = append(c.Tools, tool)
		}
		if !bit(4) {
			c.Limits.Profiles = nil
		}
		c.Limits.MaxDepth = int(configured)
		granted := []string{"fs_read_file"}
		if bit(5) {
			granted = append(granted, tool)
		}
		s := standing(max(int(depth), 0), int(ceiling), granted)
		s.Calls = int(used)
		got, err := decide(s, c, ask)
		again, err2 := decide(s, c, ask)
		if fmt.Sprint(got, err) != fmt.Sprint(again, err2) {
			t.Fatalf("the same input gives %v %v and %v %v", got, err, again, err2)
		}
		if err != nil {
			if !Refused(err) || !strings.HasPrefix(err.Error(), "refused (") && codeOf(err) != "scope" {
				t.Errorf("%v is no refusal", err)
			}
			if fmt.Sprint(got) != fmt.Sprint(convstore.Child{}) {
				t.Errorf("refused with %+v", got)
			}
			return
		}
		at := s.Caller.Depth + 1
		most := min(DepthCeiling, int(configured))
		if s.Caller.Grant != nil {
			most = min(DepthCeiling, int(ceiling))
		}
		switch {
		case at > most, got.Grant.MaxDepth > most:
			t.Errorf("admitted at depth %d with depth %d, most is %d", at, got.Grant.MaxDepth, most)
		case fixed && got.Grant.MaxDepth > at:
			t.Errorf("a special child may go down to %d", got.Grant.MaxDepth)
		case !bit(3), s.Caller.Grant != nil && !slices.Contains(granted, tool):
			t.Errorf("admitted by %s, which the caller does not hold", tool)
		case !fixed && !bit(4):
			t.Error("admitted a profile that is not listed")
		case ask.ID == stranger:
			t.Error("admitted a stranger")
		case int(used) >= c.Limits.MaxPerTurn:
			t.Errorf("admitted call %d of %d", used, c.Limits.MaxPerTurn)
		}
		role, err := role.Tools(role.Subagent)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range got.Grant.Tools {
			if s.Caller.Grant != nil && !slices.Contains(granted, name) {
				t.Errorf("granted %s, which the caller was not", name)
			}
			if ask.ID == 0 && !role.Matches(name, held[name]) {
				t.Errorf("granted %s of source %q against the role", name, held[name])
			}
		}
	})
}
