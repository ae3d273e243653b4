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

// traced returns the context in which spans are recorded, where the environment asks for that, and what sends the last of them.
// A signal cuts that short. Nothing of it changes how the command ends.
//
// A collector that cannot be reached is told of once in a tree: sub-agents tell it to the log, the run that a person or a program
// started on stderr too.
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
		if err := t.Close(last); err != nil {
			warn(err.Error())
		}
	}
}
