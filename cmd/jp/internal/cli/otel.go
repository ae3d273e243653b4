package cli

import (
	"context"
	"os"
	"time"

	"jp/cmd/jp/internal/otel"
	"jp/cmd/jp/internal/version"
)

// How long the end of a run waits for a collector. A sub-agent is itself waited for.
const (
	tracesWait    = 2 * time.Second
	tracesWaitSub = time.Second
)

// traced returns a context in which spans are recorded, if the environment asks for that. end sends
// the last spans; a signal stops it early. Traces do not change how the command ends.
//
// If a collector cannot be reached, sub-agents write that only to the log. The run that a person or
// a program started also prints it, so stderr has it once.
func (a *app) traced(ctx context.Context) (_ context.Context, end func()) {
	if !otel.Asked(a.con.Getenv) {
		return ctx, func() {}
	}
	warn := func(text string) {
		if a.ws.Gate.Delegated {
			a.con.Logger().Warn("traces: " + text)
		} else {
			a.con.Warn("traces: %s", text)
		}
	}
	t := &otel.Tracer{Env: a.con.Getenv, Version: version.Version, PID: os.Getpid(), Warn: warn}
	return t.Into(ctx), func() {
		last, stop := a.con.WithSignals(context.WithoutCancel(ctx), nil)
		defer stop()
		wait := tracesWait
		if a.ws.Gate.Delegated {
			wait = tracesWaitSub
		}
		last, cancel := context.WithTimeout(last, wait)
		defer cancel()
		defer a.con.IO.Bound(last)() // nor does a warning that nobody reads
		if err := t.Close(last); err != nil {
			warn(err.Error())
		}
	}
}
