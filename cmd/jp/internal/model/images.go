package model

import (
	"context"
	"fmt"
	"iter"
	"slices"
)

// WithoutImages returns a stream for a model that takes no images: in the thread a text stands for
// each.
func WithoutImages(s Stream) Stream {
	return func(ctx context.Context, r Request) iter.Seq2[Part, error] {
		r.Messages = slices.Clone(r.Messages)
		for i, m := range r.Messages {
			content := slices.Clone(m.Content)
			for j, c := range content {
				if c.Image != nil {
					content[j] = Content{Text: fmt.Sprintf("[an image of type %s, which this model does not take]", c.Image.MediaType)}
				}
			}
			r.Messages[i].Content = content
		}
		return s(ctx, r)
	}
}
