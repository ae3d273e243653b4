// Package model has what the tests of the providers share: a server that is nothing but
// bytes, and a reader of replies that holds them to what each model.Stream promises.
package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"jp/cmd/jp/internal/model"
)

// Replay is an http.RoundTripper that answers each request with the same event stream.
type Replay struct {
	Body string
	Sent []byte // the body of the last request
}

// RoundTrip implements http.RoundTripper.
func (p *Replay) RoundTrip(r *http.Request) (*http.Response, error) {
	var err error
	if p.Sent, err = io.ReadAll(r.Body); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(strings.NewReader(p.Body)), Request: r}, nil
}

// Ask returns a request with one question.
func Ask(question string) model.Request {
	return model.Request{Model: "x", Messages: []model.Message{{Role: model.User, Content: []model.Content{{Text: question}}}}}
}

// Read returns the parts of a reply but pieces of calls, one per line: the kind and what it holds.
// Ids of calls that we made up stand as "ours". A reply that breaks the promises of a Stream fails
// the test.
func Read(t testing.TB, ctx context.Context, s model.Stream, r model.Request) (string, error) {
	t.Helper()
	var (
		b      strings.Builder
		ended  bool
		usage  bool
		failed error
	)
	for p, err := range s(ctx, r) {
		if ended {
			t.Fatalf("%+v, %v after the end", p, err)
		}
		if err != nil {
			if !errors.As(err, new(*model.Error)) && ctx.Err() == nil {
				t.Fatalf("error = %#v, want an *Error", err)
			}
			ended, failed = true, err
			continue
		}
		if usage && p.Stop == "" {
			t.Fatalf("%+v after the usage", p)
		}
		switch {
		case p.Text != "":
			b.WriteString("text " + p.Text)
		case p.ReasoningDelta != "":
			b.WriteString("thinks " + p.ReasoningDelta)
		case p.CallDelta != "":
			continue // the call follows whole, or was cut
		case p.Reasoning != nil:
			if len(p.Reasoning.Opaque) > 0 && !json.Valid(p.Reasoning.Opaque) {
				t.Fatalf("opaque = %s", p.Reasoning.Opaque)
			}
			b.WriteString("thought " + p.Reasoning.Text + "|" + p.Reasoning.Signature + "|" + string(p.Reasoning.Opaque))
		case p.Call != nil:
			id := p.Call.ID
			if id == "" || p.Call.Name == "" || len(p.Call.Arguments) == 0 {
				t.Fatalf("call = %+v", p.Call)
			}
			if len(id) > 20 {
				id = "ours"
			}
			b.WriteString("call " + id + " " + p.Call.Name + " " + string(p.Call.Arguments))
		case p.Usage != nil:
			if *p.Usage != *model.Tokens(*p.Usage) {
				t.Fatalf("usage = %+v", p.Usage)
			}
			usage = true
			text, err := json.Marshal(p.Usage)
			if err != nil {
				t.Fatal(err)
			}
			b.WriteString("usage " + string(text))
			if p.Cost != nil {
				fmt.Fprintf(&b, " cost %d", *p.Cost)
			}
		case p.Stop != "":
			ended = true
			b.WriteString("stop " + string(p.Stop))
		default:
			t.Fatal("an empty part")
		}
		b.WriteByte('\n')
	}
	if !ended {
		t.Fatal("a reply without an end")
	}
	return b.String(), failed
}
