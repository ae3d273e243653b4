package agent

import (
	"jp/cmd/jp/internal/model"
	"jp/convstore"
	"jp/tools"
)

// Late results. A turn that goes on after a crash may get the results of sub-agents that ended meanwhile. What they say is
// then folded in by an agent that can read and nothing else, so that a text that waited for it can start nothing. It applies
// when delegation calls were pending, none of them was started only now, and at least one had handed something in; it holds
// for the rest of that turn, across another crash too.

// NoteSynthesis is the kind of the note that a turn goes on under the synthesis role.
const NoteSynthesis = "synthesis"

// Synthesis is the agent that folds late results in: the prompt and the tools of the synthesis role.
type Synthesis struct {
	System []model.Section
	Tools  tools.Set
}

const foldIn = `# Late results

The results of sub-agents came back after this turn had been interrupted. In this turn you fold them in: you can read, and
start nothing. Answer with what there is, and say what is left to do.`

// late reports whether calls that were pending are folded in: all answered from runs that existed, one of them with work.
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
