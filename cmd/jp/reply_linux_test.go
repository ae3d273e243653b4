package main

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/test/wire"
	"jp/convstore"
)

// TestReplyTooLargeForSubagent: a reply that a sub-agent could not store is an error of its model and
// none of the sub-agent. The error says what the reply has too much of.
func TestReplyTooLargeForSubagent(t *testing.T) {
	for name, tt := range map[string]struct {
		parts []model.Part
		want  string
	}{
		"bytes":  {slices.Repeat([]model.Part{{Text: strings.Repeat("x", 1<<20)}}, 20), "the reply is larger than 8388608 bytes"},
		"values": {[]model.Part{{Call: &model.Call{ID: "toolu_1", Name: "t", Arguments: fmt.Appendf(nil, `{"a":[1%s]}`, strings.Repeat(",1", 1<<20))}}}, "the reply has more than 983040 values in its calls and reasoning"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, err := wire.Start(func(context.Context, model.Request) iter.Seq2[model.Part, error] {
				return func(yield func(model.Part, error) bool) {
					for _, p := range append(tt.parts, model.Part{Stop: model.StopEnd}) {
						if !yield(p, nil) {
							return
						}
					}
				}
			}, wire.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = server.Close() })
			s := newSite(t, map[string]string{
				".jp/config.toml":         "[assistant]\nmodel = \"script/main.toml\"\n[conversation.tools.jp_query]\nsource = \"delegation\"\nrun = \"unattended\"\n[delegation]\nprofiles = [\"agent/r\"]\n",
				".jp/config/agent/r.toml": "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"anthropic/m\"\n[assistant.request]\nmax_response_bytes = 1_000_000_000\n",
				"main.toml":               "[[rule]]\nround = 1\ntool_calls = [{ name = \"jp_query\", arguments = { config = \"agent/r\", query = \"q\" } }]\n[[rule]]\ntext = \"after all\"\n",
			})
			s.more = []string{"ANTHROPIC_BASE_URL=" + server.URL, "ANTHROPIC_API_KEY=sk-the-key-of-this-test"}
			if out, code := s.jp("query", "--new", "go"); code != 0 || !strings.HasSuffix(out, "after all\n") {
				t.Errorf("the root ended with %d: %s", code, out)
			}
			dels := s.delegations(s.all()["go"].ID)
			for _, d := range dels {
				if d.State != convstore.StateError || !strings.HasSuffix(d.Reason, tt.want) {
					t.Errorf("it ended as %s: %s, want that %s", d.State, d.Reason, tt.want)
				}
			}
			if len(dels) != 1 {
				t.Errorf("%d delegations", len(dels))
			}
		})
	}
}
