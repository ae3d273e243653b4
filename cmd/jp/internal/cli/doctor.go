package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/term"
	"jp/profiles"
	"jp/tools/proc"
)

// examined is what doctor found.
type examined struct {
	OS      string   `json:"os"`
	Sandbox sandbox  `json:"sandbox"`
	Store   storeAt  `json:"store"`
	Config  []string `json:"config"` // the user's own files that were read
	Model   string   `json:"model"`  // of the user's own config; "" = none
	Keys    []string `json:"keys"`   // names of variables that are set, never a value
	Errors  []string `json:"errors"`
}

type sandbox struct {
	LandlockABI int      `json:"landlock_abi"` // 0 = none
	Seccomp     bool     `json:"seccomp"`
	Missing     []string `json:"missing"` // what cannot be enforced
}

type storeAt struct {
	Path  string `json:"path"`  // "" outside a workspace
	State string `json:"state"` // ok, not made yet, none, damaged
}

func newDoctorCommand(a *app) *cli.Command {
	return a.command(spec{
		Name: "doctor", Summary: "show what this machine can enforce and what jp finds",
		About: "What of a tool's sandbox this system has, whether the store is sound, which config files of yours are read and " +
			"which keys are set, by name. Nothing is changed, nobody is connected to. The status is 1 when something is broken; a system that " +
			"cannot enforce all of a sandbox is not: `sandbox` of a tool says what then happens.",
		Exits:    []Status{exitFailed},
		Examples: []string{"jp doctor", "jp doctor -F json | jq .sandbox"},
		Run: func(ctx context.Context, _ []string) error {
			e := a.examine(ctx)
			if err := a.writeExamined(e); err != nil {
				return err
			}
			if len(e.Errors) > 0 {
				return quiet(exitFailed)
			}
			return nil
		},
	})
}

func (a *app) examine(ctx context.Context) examined {
	can := proc.Enforceable()
	e := examined{
		OS:      runtime.GOOS + "/" + runtime.GOARCH,
		Sandbox: sandbox{LandlockABI: can.LandlockABI, Seccomp: can.Seccomp, Missing: append([]string{}, can.Missing...)},
		Store:   storeAt{State: "none"}, Config: []string{}, Keys: []string{}, Errors: []string{},
	}
	fail := func(err error) { e.Errors = append(e.Errors, err.Error()) }
	switch st, err := a.store(ctx); {
	case errors.Is(err, profiles.ErrNoWorkspace):
	case err != nil:
		fail(err)
	default:
		e.Store.Path = st.Path()
		if _, err := os.Stat(st.Path()); errors.Is(err, fs.ErrNotExist) {
			e.Store.State = "not made yet"
		} else if err := st.Check(ctx); err != nil {
			e.Store.State = "damaged"
			fail(err)
		} else {
			e.Store.State = "ok"
		}
	}
	names := []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY"}
	if r, err := profiles.Resolve(a.userSources(), nil, nil); err != nil {
		fail(err)
	} else {
		e.Model, _ = r.Config.RequireModel()
		for _, l := range r.Layers {
			if l.File != "" && !l.Dropped {
				e.Config = append(e.Config, l.File)
			}
		}
		for _, p := range r.Config.Providers.LLM {
			if p.APIKeyEnv != "" {
				names = append(names, p.APIKeyEnv)
			}
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if a.getenv(name) != "" {
			e.Keys = append(e.Keys, name)
		}
	}
	return e
}

func (a *app) writeExamined(e examined) error {
	if a.json() {
		return a.document(e)
	}
	return a.text(func(w *bufio.Writer) error {
		row := func(name, text string) { fmt.Fprintf(w, "%-9s  %s\n", name, term.Line(text)) }
		row("system", e.OS)
		row("files", pick(e.Sandbox.LandlockABI > 0, fmt.Sprintf("Landlock ABI %d", e.Sandbox.LandlockABI), "no Landlock"))
		row("network", pick(e.Sandbox.Seccomp, "system call filter", "no system call filter"))
		row("sandbox", pick(len(e.Sandbox.Missing) > 0, "cannot enforce "+strings.Join(e.Sandbox.Missing, ", "), "whole"))
		row("store", strings.TrimSpace(e.Store.State+"  "+e.Store.Path))
		row("config", or(strings.Join(e.Config, " "), "none of your own"))
		row("model", or(e.Model, "none of your own"))
		row("keys", or(strings.Join(e.Keys, " "), "none set"))
		for _, text := range e.Errors {
			row("broken", text)
		}
		return nil
	})
}
