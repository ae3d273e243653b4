package cli

import (
	"slices"
	"strconv"
	"strings"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/run"
	"jp/convstore"
	"jp/profiles"
)

// bounds are --max-tokens and --max-cost: what the whole run may use.
func (o *queryOptions) bounds() convstore.Budget {
	return convstore.Budget{Tokens: o.maxTokens.Value, CostNano: o.maxCost.Value}
}

// again is the command that goes on with a conversation, within the limits of this one: they were those of its turn only. All
// values are numbers, durations or one word, which a shell takes as they are.
func (o *queryOptions) again(id convstore.ID) string {
	line := "jp query --id " + id.String()
	add := func(set bool, words string) {
		if set {
			line += " --" + words
		}
	}
	of := func(n *int64, decimals int) string {
		text := strings.Trim(command.Amount(n, decimals), `"`)
		if decimals > 0 && n != nil {
			text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
		}
		return text
	}
	add(o.timeout.Set, "timeout "+o.timeout.Value.String())
	add(o.maxTurns.Set, "max-turns "+strconv.Itoa(o.maxTurns.Value))
	add(o.maxTokens.Set, "max-tokens "+of(o.maxTokens.Value, 0))
	add(o.maxCost.Set, "max-cost "+of(o.maxCost.Value, 9))
	add(o.sub.Set && !o.sub.Value, "no-sub-calls")
	add(o.maxSub.Set, "max-sub-calls "+strconv.Itoa(o.maxSub.Value))
	add(o.maxDepth.Set, "max-depth "+strconv.Itoa(o.maxDepth.Value))
	add(o.subTokens.Set, "max-sub-tokens "+of(o.subTokens.Value, 0))
	add(o.subCost.Set, "max-sub-cost "+of(o.subCost.Value, 9))
	return line
}

// again is the command that goes on with what the query was about.
func (q *query) again() string {
	if q.delegated { // its limits are its caller's
		return (&queryOptions{}).again(q.conv.ID)
	}
	line := q.o.again(q.conv.ID)
	if role := q.o.role; role != "" && role != q.conv.Role { // it was for this run alone
		line += " --role " + role
	}
	if q.app.con.Globals.Workspace.Set { // the person may be elsewhere
		line += " -w '" + strings.ReplaceAll(q.workspace, "'", `'\''`) + "'"
	}
	return line
}

// sessionFlags are those of flagDirectives that limit sub-agents, for a person who delegates on behalf of a conversation.
func (o *queryOptions) sessionFlags() []profiles.Directive {
	return slices.DeleteFunc(o.flagDirectives(), func(d profiles.Directive) bool {
		return d.Flag != "--max-sub-tokens" && d.Flag != "--max-sub-cost"
	})
}

// budget is what the session of this run may use: nil in a delegated conversation, whose grant says so.
func (q *query) budget(cfg profiles.Config, info model.Info) (*convstore.Limits, error) {
	if q.delegated || q.hand != nil {
		return nil, nil
	}
	l := run.SessionLimits(cfg)
	l.Run = q.o.bounds()
	l.Strict = l.Strict || l.Run.CostNano != nil
	return &l, q.boundable(info)
}

// boundable refuses a model of which nobody can say whether it stays within --max-cost.
func (q *query) boundable(info model.Info) error {
	if q.o.bounds().CostNano == nil || info.Price != nil {
		return nil
	}
	return exit.Refusedf("--max-cost: the price of the model %s is not known", info.ID).
		WithHint("give it in [providers.llm.prices] of the user's config.toml, or leave --max-cost out")
}
