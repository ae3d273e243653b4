package agent

import (
	"context"
	"iter"

	"jp/convstore"
)

// Log is the conversation that a Loop works in: one that is locked for this run. A *convstore.Log
// is one where this process has the store; a sub-agent has a wire.Log, behind which the
// process that started it has one. What is appended is durable when the method returns. The methods
// are those of convstore.Log, where each is described.
type Log interface {
	ID() convstore.ID
	Blank() bool
	Get(context.Context) (convstore.Conversation, error)
	Events(context.Context, convstore.Range) iter.Seq2[convstore.Event, error]
	Children(ctx context.Context, limit int) ([]convstore.Conversation, error)
	Append(context.Context, ...convstore.Event) error
	Begin(ctx context.Context, bound func(convstore.Account) *convstore.Call, events ...convstore.Event) error
	Retitle(ctx context.Context, was, title string, events ...convstore.Event) (bool, error)
	Limit(context.Context, convstore.Limits) error
}

var _ Log = (*convstore.Log)(nil)
