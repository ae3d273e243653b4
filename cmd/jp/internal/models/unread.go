package models

import (
	"context"
	"iter"
	"slices"

	"jp/cmd/jp/internal/model"
)

// leastWindow is the smallest window that a server has, in tokens.
const leastWindow = 2048

// perToken is more bytes than a token of any usual text has, twice.
const perToken = 8

// unread returns s and calls short where a reply shows that the server read far less than the text of
// a request: Ollama leaves out what does not fit its window and does not say so. It does not count
// thinking, which is not sent in later turns, nor the tools, which some templates leave out after the
// first round.
func unread(s model.Stream, short func(read, sent int64)) model.Stream {
	return func(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] {
		return func(yield func(model.Part, error) bool) {
			for p, err := range s(ctx, r) {
				if u := p.Usage; u != nil && !p.Estimated && !slices.ContainsFunc(r.Messages, pictured) {
					read, sent := u.Input+u.CacheRead+u.CacheWrite, spoken(r)
					if read > 0 && read < sent/perToken && sent > perToken*leastWindow {
						short(read, sent*2/perToken)
					}
				}
				if !yield(p, err) {
					return
				}
			}
		}
	}
}

// spoken returns the number of bytes of what people, the model and tools said in a request.
func spoken(r model.Request) (n int64) {
	for _, m := range r.Messages {
		for _, c := range m.Content {
			n += int64(len(c.Text))
			if c.Result != nil {
				n += int64(len(c.Result.Text))
			}
		}
	}
	return n
}

// pictured reports whether a message has an image: nobody knows for how many tokens Ollama counts it.
func pictured(m model.Message) bool {
	return slices.ContainsFunc(m.Content, func(c model.Content) bool { return c.Image != nil })
}
