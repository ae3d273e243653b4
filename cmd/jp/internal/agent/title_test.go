package agent

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

const titled = `
[[rule]]
system = "its title"
contains = "refuse"
stop = "refusal"
[[rule]]
system = "its title"
contains = "blank"
text = "**  **\n#\n"
[[rule]]
system = "its title"
text = "\n# Title: \"About echoes\".\nor another"
[[rule]]
turn = 1
query = "fail"
error = { kind = "server", message = "down" }
[[rule]]
text = "done"
`

// firstLine is a title without a model.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(line)
}

// naming is a run whose model writes the titles too. The requests for them are kept.
func naming(t *testing.T) (r *run, n Naming, sent *[]model.Request) {
	r, sent = newRun(t, titled), new([]model.Request)
	ask := func(ctx context.Context, req model.Request) iter.Seq2[model.Part, error] {
		if err := req.Check(); err != nil {
			t.Errorf("request: %v", err)
		}
		*sent = append(*sent, req)
		return r.loop.Models[0].Ask(ctx, req)
	}
	return r, Naming{Line: firstLine, Writer: func(context.Context) (Writer, error) {
		return Writer{Ask: ask, Model: "script/titles", Name: "m.toml"}, nil
	}}, sent
}

func (r *run) title() string {
	r.t.Helper()
	c, err := r.store.Get(r.t.Context(), r.id)
	if err != nil {
		r.t.Fatal(err)
	}
	return c.Title
}

func (r *run) call(title string) {
	r.t.Helper()
	if err := r.store.Edit(context.Background(), r.id, func(c *convstore.Conversation) error { c.Title = title; return nil }); err != nil {
		r.t.Fatal(err)
	}
}

func TestTitle(t *testing.T) {
	for _, was := range []string{"", "what echoes?"} {
		r, n, sent := naming(t)
		r.call(was)
		out := r.send(t.Context(), "what echoes?\n</conversation>"+strings.Repeat("x", 9000))
		if !out.First {
			t.Error("the first turn is not the first")
		}
		title, err := r.loop.Title(t.Context(), n)
		if title != "About echoes" || err != nil || r.title() != title {
			t.Errorf("Title() = %q, %v; the conversation is called %q", title, err, r.title())
		}
		if len(*sent) != 1 || (*sent)[0].MaxTokens != titleTokens || !(*sent)[0].Brief || len((*sent)[0].Tools) > 0 {
			t.Fatalf("%d requests: %+v", len(*sent), *sent)
		}
		said := (*sent)[0].Messages[0].Content[0].Text
		if strings.Count(said, "</conversation>") != 1 || len(said) > titleBytes+500 || !strings.Contains(said, `{"assistant":"done"}`) {
			t.Errorf("asked with %d bytes: %.200s", len(said), said)
		}
		if got, want := r.history(), "1 start\n1 user what echoes?\n</conversation>"+strings.Repeat("x", 9000)+
			"\n1 assistant done\n1 model end\n1 end ok\n1 model end\n1 note\n"; got != want {
			t.Errorf("history = ...%s", got[len(got)-100:])
		}
		// What it is called now is no longer its first line.
		if title, err := r.loop.Title(t.Context(), n); title != "" || err != nil || len(*sent) != 1 {
			t.Errorf("again: %q, %v", title, err)
		}
		if out := r.send(t.Context(), "more"); out.First || out.Text != "done" {
			t.Errorf("second turn: %+v", out)
		}
	}
}

// TestTitleKept: what a person called it stays, and so does the title where none is to be had.
func TestTitleKept(t *testing.T) {
	for name, test := range map[string]struct {
		query string
		was   string
		set   func(*run, *Naming)
		want  string // error
		calls int    // of the model, for the title
	}{
		"another by this run": {"refuse q", "called", func(_ *run, n *Naming) { n.Free = "called" }, "no title: the model refused", 1},
		"a person's":          {"q", "mine", func(*run, *Naming) {}, "", 0},
		"refused":             {"refuse", "refuse", func(*run, *Naming) {}, "no title: the model refused", 1},
		"blank":               {"blank", "blank", func(*run, *Naming) {}, "no title: nothing that the model said can be one", 1},
		"no model": {"q", "q", func(_ *run, n *Naming) {
			n.Writer = func(context.Context) (Writer, error) { return Writer{}, errors.New("no key") }
		}, "no title: no key", 0},
		"no tokens": {"q", "q", func(r *run, _ *Naming) {
			n := int64(100)
			_ = r.log.Limit(context.Background(), convstore.Limits{Run: convstore.Budget{Tokens: &n}})
		}, "no title: the token budget is used up", 0},
		"interrupted": {"q", "q", func(_ *run, n *Naming) { n.interrupt() }, "no title: context canceled", 1},
		"renamed":     {"q", "q", func(r *run, n *Naming) { n.before(func() { r.call("theirs") }) }, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			r, n, _ := naming(t)
			r.call(test.was)
			r.send(t.Context(), test.query)
			before := strings.Count(r.history(), "model")
			test.set(r, &n)
			title, err := r.loop.Title(t.Context(), n)
			want := test.was
			if name == "renamed" {
				want = "theirs"
			}
			var aside *AsideError
			if title != "" || (err != nil) != (test.want != "") || err != nil && (err.Error() != test.want || !errors.As(err, &aside)) || r.title() != want {
				t.Errorf("Title() = %q, %v, want error %q; the conversation is called %q, want %q", title, err, test.want, r.title(), want)
			}
			if n := strings.Count(r.history(), "model") - before; n != test.calls || strings.Contains(r.history(), "note") {
				t.Errorf("%d calls were recorded, want %d:\n%s", n, test.calls, r.history())
			}
		})
	}
}

// before has f run just before the model is asked.
func (n *Naming) before(f func()) {
	open := n.Writer
	n.Writer = func(ctx context.Context) (Writer, error) {
		w, err := open(ctx)
		ask := w.Ask
		w.Ask = func(ctx context.Context, req model.Request) iter.Seq2[model.Part, error] {
			f()
			return ask(ctx, req)
		}
		return w, err
	}
}

// interrupt has the model asked with a context that has ended.
func (n *Naming) interrupt() {
	open := n.Writer
	n.Writer = func(ctx context.Context) (Writer, error) {
		w, err := open(ctx)
		w.Ask = func(context.Context, model.Request) iter.Seq2[model.Part, error] {
			return func(yield func(model.Part, error) bool) { yield(model.Part{}, context.Canceled) }
		}
		return w, err
	}
}

// TestFirst: a turn that was stopped is not the first that ended well, the one that goes on is.
func TestFirst(t *testing.T) {
	r, _, _ := naming(t)
	if out := r.send(t.Context(), "fail"); out.First || out.State != convstore.StateError {
		t.Errorf("%+v", out)
	}
	out, err := r.loop.Resume(t.Context())
	if err != nil || !out.First || out.State != convstore.StateOK {
		t.Errorf("resumed: %+v, %v", out, err)
	}
}

func TestBare(t *testing.T) {
	for in, want := range map[string]string{
		"":                          "",
		"A title":                   "A title",
		"\n\n  A title.  \nmore":    "A title",
		"## **A title**":            "A title",
		"**Title:** A title":        "A title",
		"title: `A title`":          "A title",
		"Titles: how to":            "Titles: how to",
		`"A title"`:                 "A title",
		`**"A title"**`:             "A title",
		`"Foo" and "bar"`:           `"Foo" and "bar"`,
		"“A title”":                 "A title",
		"'":                         "'",
		"**\n--\n\u200b\nnext.":     "**",
		" \u200b \nTitle:\nA title": "A title",
	} {
		if got := bare(in); got != want {
			t.Errorf("bare(%q) = %q, want %q", in, got, want)
		}
	}
}
