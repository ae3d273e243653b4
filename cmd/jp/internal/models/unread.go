package models

import (
	"context"
	"iter"
	"slices"

	"jp/cmd/jp/internal/model"
)

// leastWindow is the smallest window that a server has, in tokens.
const leastWindow = 2048

// unread returns s and calls short where a reply shows that the server read less than half of a
// request, as far as that can be estimated: Ollama leaves out what does not fit its window and does
// not say so.
func unread(s model.Stream, short func(read, sent int64)) model.Stream {
	return func(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] {
		return func(yield func(model.Part, error) bool) {
			for p, err := range s(ctx, r) {
				if u := p.Usage; u != nil && !p.Estimated && !slices.ContainsFunc(r.Messages, pictured) {
					read, sent := u.Input+u.CacheRead+u.CacheWrite, r.Estimate()
					if read > 0 && read < sent/2 && sent > leastWindow {
						short(read, sent)
					}
				}
				if !yield(p, err) {
					return
				}
			}
		}
	}
}

// pictured reports whether a message has an image: nobody knows for how many tokens Ollama counts it.
func pictured(m model.Message) bool {
	return slices.ContainsFunc(m.Content, func(c model.Content) bool { return c.Image != nil })
}
