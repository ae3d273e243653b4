package model_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

// What a reply says until nothing but its formal end is missing, by wire format.
var complete = map[string][]string{
	"anthropic": {
		`{"type":"message_start","message":{"usage":{"input_tokens":5000,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"All of it."}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":500}}`,
	},
	"openai": {
		`{"choices":[{"index":0,"delta":{"content":"All of it."}}]}`,
		`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":5000,"completion_tokens":500}}`,
	},
	"responses": {
		`{"type":"response.output_text.delta","output_index":0,"delta":"All of it."}`,
		`{"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":5000,"output_tokens":500}}}`,
	},
}

// TestCompleteReply: a reply that says all that it has to say is complete, whatever its connection,
// a limit or the end of the run does then: it was paid for.
func TestCompleteReply(t *testing.T) {
	hang := func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() }
	for name, after := range map[string]http.HandlerFunc{
		"cut":       func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"hangs":     hang,
		"cancelled": hang,
		"error": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"busy\",\"code\":529}}\n\n")
		},
		"garbage": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "event: message_delta\ndata: }{\n\n")
		},
	} {
		for id, events := range complete {
			t.Run(name+"/"+id, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					_, _ = io.Copy(io.Discard, req.Body)
					w.Header().Set("Content-Type", "text/event-stream")
					for _, e := range events {
						_, _ = io.WriteString(w, "event: "+eventName(e)+"\ndata: "+e+"\n\n")
					}
					_ = http.NewResponseController(w).Flush()
					after(w, req)
				}))
				defer server.Close()
				limits := model.LimitOptions{Idle: 300 * time.Millisecond, First: time.Minute}
				if name == "cancelled" {
					limits.Idle = -1
				}
				s := model.Retry(model.Count(model.Limit(open(t, id+"/wire", server.URL), limits)), model.RetryOptions{Attempts: 1})
				got := collect(t, func(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] {
					return func(yield func(model.Part, error) bool) {
						for p, err := range s(ctx, r) {
							if p.Text != "" && name == "cancelled" {
								cancel() // the rest is in the buffer
							}
							if !yield(p, err) {
								return
							}
						}
					}
				}, ctx, ask("x"))
				if want := (convstore.Usage{Input: 5000, Output: 500}); got.usage == nil || *got.usage != want {
					t.Errorf("usage = %+v, want %+v", got.usage, want)
				}
				if got.text != "All of it." || got.stop != model.StopEnd || got.err != nil {
					t.Errorf("text %q, stop %q, %v", got.text, got.stop, got.err)
				}
			})
		}
	}
}

// TestUsageUnended: the usage of an event counts without the blank line behind it, however its
// connection ends.
func TestUsageUnended(t *testing.T) {
	for id, events := range complete {
		for name, cut := range map[string]bool{"cut": true, "ended": false} {
			got := answer(t, id+"/wire", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for i, e := range events {
					_, _ = io.WriteString(w, "event: "+eventName(e)+"\ndata: "+e+strings.Repeat("\n", min(2, 2*(len(events)-1-i))))
				}
				_ = http.NewResponseController(w).Flush()
				if cut {
					panic(http.ErrAbortHandler)
				}
			})
			if want := (convstore.Usage{Input: 5000, Output: 500}); got.usage == nil || *got.usage != want || (got.err != nil) != (id != "responses") {
				t.Errorf("%s, %s: usage %+v, %v", id, name, got.usage, got.err)
			}
		}
	}
}

// TestUsageOfBeginning: what is told before the last words is only the least that the whole reply
// has used, if it is more than these come to.
func TestUsageOfBeginning(t *testing.T) {
	words := strings.Repeat("x", 300)
	for output, want := range map[string]int64{"1": 101, "500": 500} {
		for id, events := range map[string][]string{
			"anthropic": {
				`{"type":"message_start","message":{"usage":{"input_tokens":5000,"output_tokens":` + output + `}}}`,
				`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"` + words + `"}}`,
				`{"type":"content_block_stop","index":0}`,
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`,
				`{"type":"message_stop"}`,
			},
			"openai": {
				`{"choices":[],"usage":{"prompt_tokens":5000,"completion_tokens":` + output + `}}`,
				`{"choices":[{"index":0,"delta":{"content":"` + words + `"}}]}`,
				`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
			},
		} {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for _, e := range events {
					_, _ = io.WriteString(w, "event: "+eventName(e)+"\ndata: "+e+"\n\n")
				}
			}))
			defer server.Close()
			got := collect(t, model.Count(open(t, id+"/wire", server.URL)), t.Context(), ask("x"))
			if want := (convstore.Usage{Input: 5000, Output: want}); got.usage == nil || *got.usage != want || got.err != nil {
				t.Errorf("%s, %s told: usage %+v, %v, want %+v", id, output, got.usage, got.err, want)
			}
		}
	}
}

// TestUsageEndsChat: nothing is awaited after the usage that follows the finish reason. Usage
// before it, or beside more of the answer, ends nothing.
func TestUsageEndsChat(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range []string{
			`{"choices":[{"delta":{"content":"All "},"finish_reason":"stop"}],"usage":{"prompt_tokens":5000,"completion_tokens":1}}`,
			`{"choices":[{"delta":{"content":"of it."},"finish_reason":"stop"}],"usage":{"prompt_tokens":5000,"completion_tokens":400}}`,
			`{"choices":[],"usage":{"prompt_tokens":5000,"completion_tokens":500}}`,
		} {
			_, _ = io.WriteString(w, "data: "+e+"\n\n")
		}
		_ = http.NewResponseController(w).Flush()
		<-req.Context().Done()
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("it waits"))
	defer cancel()
	got := collect(t, open(t, "openai/wire", server.URL), ctx, ask("x"))
	if got.text != "All of it." || got.usage == nil || got.usage.Output != 500 || ctx.Err() != nil {
		t.Errorf("text %q, usage %+v, %v, %v", got.text, got.usage, got.err, context.Cause(ctx))
	}
}

// TestIncompleteReply: a reply within a block, or without a stop reason, is not complete.
func TestIncompleteReply(t *testing.T) {
	for id, events := range complete {
		for n := range len(events) - 1 {
			without := append(append([]string{}, events[:n]...), events[n+1:]...)
			if id != "anthropic" || n != len(events)-2 {
				without = events[:n+1]
			}
			got := answer(t, id+"/wire", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for _, e := range without {
					_, _ = io.WriteString(w, "event: "+eventName(e)+"\ndata: "+e+"\n\n")
				}
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			})
			if got.err == nil {
				t.Errorf("%s: %s is complete", id, strings.Join(without, "\n"))
			}
		}
	}
}

// TestGoesOnAfterStop: a stop reason that comes with each piece, or before others, does not make a
// reply complete where the connection breaks.
func TestGoesOnAfterStop(t *testing.T) {
	for id, events := range map[string][]string{
		"openai": {
			`{"choices":[{"delta":{"content":"Half "},"finish_reason":"stop"}]}`,
			`{"choices":[{"delta":{"content":"of "},"finish_reason":"stop"}]}`,
		},
		"anthropic": {
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Half of "}}`,
			`{"type":"content_block_stop","index":0}`,
		},
	} {
		for name, cut := range map[string]bool{"cut": true, "ended": false} {
			got := answer(t, id+"/wire", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for _, e := range events {
					_, _ = io.WriteString(w, "event: "+eventName(e)+"\ndata: "+e+"\n\n")
				}
				_ = http.NewResponseController(w).Flush()
				if cut {
					panic(http.ErrAbortHandler)
				}
			})
			if (got.err != nil) != cut {
				t.Errorf("%s, %s: stop %q, %v", id, name, got.stop, got.err)
			}
		}
	}
}

// eventName returns the type of an event.
func eventName(e string) string {
	_, rest, _ := strings.Cut(e, `{"type":"`)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}
