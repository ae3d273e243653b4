package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"jp/convstore"
)

// seedTree makes a root that has delegated n times, to two models and three profiles, each child
// with two model calls and a tool call, and returns its id.
func (s *shop) seedTree(n int) string {
	s.b.Helper()
	must := func(err error) {
		s.b.Helper()
		if err != nil {
			s.b.Fatal(err)
		}
	}
	ctx := context.Background()
	st, err := convstore.Open(s.storeDir(), convstore.Options{Workspace: s.dir})
	must(err)
	config := convstore.Config{JSON: []byte("{}")}
	root, err := st.Create(ctx, convstore.New{Title: "a large tree", Model: "anthropic/bench", Config: config})
	must(err)
	log, err := st.Lock(ctx, root.ID)
	must(err)
	defer func() { _ = log.Close() }()
	cost := int64(1_250_000)
	call := convstore.ModelCall{Model: "anthropic/bench", Usage: convstore.Usage{Input: 900, Output: 80}, CostNano: &cost, Duration: time.Second}
	for made := 0; made < n; {
		many := min(40, n-made)
		events := []convstore.Event{{Body: convstore.TurnStart{}}, {Body: convstore.UserMessage{Text: "go on"}}}
		var children []convstore.Child
		for range many {
			made++
			id := fmt.Sprintf("toolu_%06d", made)
			args, err := json.Marshal(map[string]string{"config": "agent/r", "query": "study the part " + id})
			must(err)
			events = append(events, convstore.Event{Body: convstore.ToolCall{ID: id, Name: "jp_query", Source: "delegation", Arguments: args}})
			children = append(children, convstore.Child{
				Call: id, Kind: "sub_complete", Title: "study the part", Hidden: true, Profile: fmt.Sprintf("agent/r%d", made%3), ProfileHash: strings.Repeat("ab", 32),
				Model: "anthropic/bench", Role: "subagent", Config: config, Grant: convstore.Grant{Tools: []string{"fs_read_file", "fs_grep_files", "fs_list_files"}},
			})
		}
		must(log.Append(ctx, append(events, convstore.Event{Body: call})...))
		rs, err := log.Below().Reserve(ctx, func(convstore.Standing) ([]convstore.Child, error) { return children, nil })
		must(err)
		for _, r := range rs {
			child, err := log.Below().Log(ctx, r)
			must(err)
			other := call
			other.Model = fmt.Sprintf("anthropic/bench-%d", len(r.Delegation.Call)%2)
			var events []convstore.Event
			for _, b := range []convstore.Body{
				convstore.TurnStart{}, convstore.UserMessage{Text: strings.Repeat("what? ", 20)},
				convstore.ToolCall{ID: "t", Name: "fs_read_file", Source: "builtin", Arguments: []byte(`{"path":"a.txt"}`)}, call,
				convstore.ToolResult{ID: "t", Text: strings.Repeat("text ", 400)},
				convstore.AssistantMessage{Text: strings.Repeat("found ", 100)}, other, convstore.TurnEnd{State: convstore.StateOK},
			} {
				events = append(events, convstore.Event{Body: b})
			}
			must(child.Append(ctx, events...))
			must(child.Close())
			_, err = log.Below().Settle(ctx, r, convstore.Outcome{State: convstore.StateOK})
			must(err)
			must(log.Append(ctx, convstore.Event{Body: convstore.ToolResult{ID: r.Delegation.Call, Text: "found"}}))
		}
		must(log.Append(ctx, convstore.Event{Body: convstore.AssistantMessage{Text: "done"}}, convstore.Event{Body: call}, convstore.Event{Body: convstore.TurnEnd{State: convstore.StateOK}}))
	}
	return root.ID.String()
}

func BenchmarkUsageOf1000Delegations(b *testing.B) {
	s := newShop(b, "0s")
	s.measure("usage", s.seedTree(1000), "--check")
}

func BenchmarkTraceOf1000Delegations(b *testing.B) {
	s := newShop(b, "0s")
	s.measure("trace", s.seedTree(1000), "--output", "html")
}
