package agent

import (
	"jp/cmd/jp/internal/model"
	"jp/convstore"
	"jp/tools"
)

// Late results. A turn that is resumed after a crash may get the results of sub-agents that have
// ended since. They are folded in by an agent that can only read, so that a text that was waiting
// can start nothing. This happens where delegation calls were pending, all of them were answered
// from earlier runs, and at least one run had handed something in. It holds for the rest of that
// turn, also after another crash.

// NoteSynthesis is the kind of the note that says that the rest of a turn has the synthesis role.
const NoteSynthesis = "synthesis"

// Synthesis is the agent that folds late results in: the prompt and the tools of the synthesis
// role.
type Synthesis struct {
	System []model.Section
	Tools  tools.Set
}

const foldIn = `# Late results

The results of sub-agents came back after this turn had been interrupted. In this turn you fold them in: you can read, and
start nothing. Answer with what there is, and say what is left to do.`

// late reports whether the results of calls that were pending are late: all were answered from
// earlier runs, and at least one run had handed something in.
func (l *Loop) late(calls []convstore.ToolCall, results map[string]convstore.ToolResult) bool {
	work := false
	for _, c := range calls {
		if l.Recalled == nil || !l.Recalled(c.ID) {
			return false
		}
		work = work || !results[c.ID].IsError
	}
	return work
}

// fold narrows the turn to the synthesis role.
func (t *turn) fold() {
	t.tools.Set = t.loop.Synthesis.Tools
	t.system = append(t.loop.Synthesis.System[:len(t.loop.Synthesis.System):len(t.loop.Synthesis.System)], model.Section{Text: foldIn})
}
