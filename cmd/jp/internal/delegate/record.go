package delegate

import (
	"cmp"
	"log/slog"
	"strconv"
	"time"

	"jp/convstore"
)

// LogEnd writes the line in the log about a delegation that was settled, from its stored record.
func LogEnd(log *slog.Logger, d convstore.Delegation) {
	within := ""
	if d.Within != 0 {
		within = "jp-d" + strconv.FormatUint(d.Within, 10)
	}
	log.Info("delegation",
		"id", d.ID, "root", d.Root, "conversation", d.Child, "caller", d.Caller, "call", d.Call, "within", within,
		"depth", d.Depth, "kind", d.Kind, "profile", d.Profile, "profile_hash", d.ProfileHash, "model", d.Model,
		"grant_tokens", unlimited(d.Grant.Tokens), "grant_cost_nano", unlimited(d.Grant.CostNano),
		"input_tokens", d.Own.Input, "output_tokens", d.Own.Output, "cache_read_tokens", d.Own.CacheRead, "cache_write_tokens", d.Own.CacheWrite,
		"cost_nano", d.Own.Cost(), "total_tokens", d.Total.Tokens(), "total_cost_nano", d.Total.Cost(),
		"started_at", begunAt(d), "duration_ms", took(d).Milliseconds(), "state", d.State, "reason", d.Reason,
		"tools_allowed", d.ToolsAllowed, "tools_total", d.ToolsTotal, "tools_denied", d.ToolsDenied,
	)
}

// begunAt returns when a delegation began to run, or was reserved if it never did.
func begunAt(d convstore.Delegation) time.Time { return cmp.Or(d.Started, d.Reserved) }

// took returns how long a delegation that has ended ran, at least 0: the clock may be set back.
func took(d convstore.Delegation) time.Duration { return max(0, d.Ended.Sub(begunAt(d))) }

// ran sets what the record of a delegation that has ended says of its run.
func (e *ending) ran(d convstore.Delegation) {
	e.Turn, e.Model, e.Took = d.ChildTurn, cmp.Or(e.Model, d.Model), took(d)
}

// unlimited returns a limit as the log writes it.
func unlimited(n *int64) any {
	if n == nil {
		return "unlimited"
	}
	return *n
}
