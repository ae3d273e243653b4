package agent

import (
	"context"
	"iter"
	"strings"
	"testing"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

const oneCall = `
[[rule]]
round = 1
tool_calls = [{ name = "echo", arguments = { say = "a" } }]
[[rule]]
text = "it says a"
`

// fails is a model whose every call fails after it used something, with an error of a kind.
func fails(kind model.Kind) Model {
	ask := func(context.Context, model.Request) iter.Seq2[model.Part, error] {
		return func(yield func(model.Part, error) bool) {
			if yield(model.Part{Reasoning: &model.Reasoning{Text: "hm"}}, nil) && yield(model.Part{Usage: &convstore.Usage{Input: 7, Output: 3}}, nil) {
				yield(model.Part{}, &model.Error{Kind: kind, Message: "not now"})
			}
		}
	}
	return Model{Writer: Writer{Ask: ask, Model: "m/fails", Name: "fails", Price: pricey()}}
}

// TestStandIn: the next model makes the call that failed, and those after it. What the failed one
// had used is charged to its model.
func TestStandIn(t *testing.T) {
	for kind, want := range map[model.Kind]string{
		model.KindQuota: "", model.KindRateLimit: "", model.KindServer: "", model.KindStream: "",
		model.KindBadRequest: "bad_request: not now", model.KindAuth: "auth: not now", model.KindContext: "context: not now",
	} {
		r := newRun(t, oneCall)
		r.loop.Compact.Off = true
		r.loop.Models = append([]Model{fails(kind)}, r.loop.Models...)
		out := r.send(t.Context(), "what?")
		if out.Reason != want {
			t.Errorf("%s: %+v", kind, out)
		}
		if want != "" {
			continue
		}
		r.want(`
1 start
1 user what?
1 model broken
1 note
1 call echo {"say":"a"}
1 model tool_use
1 result false echo a
1 assistant it says a
1 model end
1 end ok
`)
		if out.Model != "script/m.toml" || out.Usage.Output < 3 {
			t.Errorf("%s: %+v", kind, out)
		}
	}
}

// TestStandInResumes: a turn that is resumed goes on with the model that stood in, and one that was
// escalated is not escalated again.
func TestStandInResumes(t *testing.T) {
	r := newRun(t, "[[rule]]\ntext = \"done\"")
	r.loop.Models = append([]Model{fails(model.KindQuota)}, r.loop.Models...)
	stop, cancel := context.WithCancel(t.Context())
	last := r.loop.Models[1].Ask
	r.loop.Models[1].Ask = func(context.Context, model.Request) iter.Seq2[model.Part, error] {
		cancel()
		_ = r.log.Close() // as if it died here
		return func(yield func(model.Part, error) bool) { yield(model.Part{}, context.Canceled) }
	}
	if _, err := r.loop.Send(stop, convstore.UserMessage{Text: "q"}); err == nil {
		t.Fatal("the turn ended without its log")
	}
	r.lock()
	r.loop.Log, r.loop.Models[1].Ask = r.log, last
	out, err := r.loop.Resume(t.Context())
	if err != nil || out.Text != "done" || strings.Count(r.history(), "broken") != 1 {
		t.Errorf("Resume = %+v, %v\n%s", out, err, r.history())
	}
}

// TestEscalate: another model goes on once, and a refusal is not asked of another one.
func TestEscalate(t *testing.T) {
	for _, test := range []struct{ first, then, want string }{
		{"text = \"\"", "text = \"done\"", "1 start\n1 user q\n1 model end\n1 note\n1 assistant done\n1 model end\n1 end ok\n"},
		{"text = \"part\"\nstop = \"max_tokens\"", "text = \"done\"", "1 start\n1 user q\n1 assistant part\n1 model max_tokens\n1 note\n1 assistant done\n1 model end\n1 end ok\n"},
		{"text = \"\"", "text = \"\"", "1 start\n1 user q\n1 model end\n1 note\n1 model end\n1 end empty\n"},
		{"text = \"no\"\nstop = \"refusal\"", "text = \"done\"", "1 start\n1 user q\n1 assistant no\n1 model refusal\n1 end refused\n"},
		{"error = { kind = \"auth\" }", "text = \"done\"", "1 start\n1 user q\n1 end error\n"},
		{"error = { kind = \"bad_request\" }", "text = \"done\"", "1 start\n1 user q\n1 model broken\n1 note\n1 assistant done\n1 model end\n1 end ok\n"},
	} {
		r, other := newRun(t, "[[rule]]\n"+test.first), newRun(t, "[[rule]]\n"+test.then)
		strong := other.loop.Models[0]
		strong.Model = "m/strong"
		r.loop.Escalate = &strong
		r.send(t.Context(), "q")
		if got := r.history(); got != test.want {
			t.Errorf("%s: history =\n%swant\n%s", test.first, got, test.want)
		}
	}
}
