package care

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/lint"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/otel"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
	"jp/profiles"
	"jp/tools/proc"
)

// examined has the findings of doctor.
type examined struct {
	OS      string   `json:"os"`
	Sandbox sandbox  `json:"sandbox"`
	Store   storeAt  `json:"store"`
	Config  []string `json:"config"` // the user's own files that were read
	Model   string   `json:"model"`  // model of a query here; outside of a trusted workspace that of the user's own config; "" = none
	Keys    []string `json:"keys"`   // names of variables that are set, never a value

	Adopts    bool            `json:"adopts"` // whether jp becomes the parent of orphans, so that nothing outlives it
	Disk      *convstore.Disk `json:"disk"`   // disk of the store; null without a store
	Temp      *convstore.Disk `json:"temp"`   // disk of temporary files; null without a folder for them
	Providers []providerKey   `json:"providers"`
	Terminal  terminalSeen    `json:"terminal"`
	Traces    *otel.Plan      `json:"traces"`   // null = no traces are sent
	Trust     string          `json:"trust"`    // trusted, changed, untrusted; "" outside a workspace
	Query     string          `json:"query"`    // "starts", or the reason why a query would not; "" outside a workspace
	Findings  []lint.Finding  `json:"findings"` // those of jp check

	Errors []string `json:"errors"`
}

// providerKey says whether the key of a provider is set.
type providerKey struct {
	Name     string `json:"name"`
	Variable string `json:"variable"` // variable that holds the key; "" = no key is needed
	Key      string `json:"key"`      // set, missing, withheld (another layer set the address), none (not needed)
}

// terminalSeen says what jp can show on the terminal, and whether it can ask questions.
type terminalSeen struct {
	Out    bool `json:"out"` // whether stdout is a terminal
	Width  int  `json:"width"`
	UTF8   bool `json:"utf8"`
	Color  bool `json:"color"`
	Answer bool `json:"answer"` // whether questions can be asked
}

type sandbox struct {
	LandlockABI int      `json:"landlock_abi"` // 0 = none
	Seccomp     bool     `json:"seccomp"`
	IOUring     bool     `json:"io_uring"` // whether a tool can use io_uring, and with it the network, because no filter refuses it
	Missing     []string `json:"missing"`  // parts that cannot be enforced
}

type storeAt struct {
	Path  string `json:"path"`  // "" outside a workspace
	State string `json:"state"` // ok, not made yet, none, damaged, not checked
}

// NewDoctor returns the command `jp doctor`.
func NewDoctor(g *Group) *cli.Command {
	var launcher command.Maybe[string]
	return g.Tree.Command(command.Spec{
		Name: "doctor", Summary: "show what this machine can enforce and what jp finds",
		About: "Shows how much of a tool's sandbox this system can enforce, whether the store is " +
			"sound and what file system it is on, whether the workspace is trusted, whether a " +
			"query would start in it and what else `jp check` finds, which config files of yours are read, which providers have " +
			"a key (not the key), what the terminal can do, and where traces are sent, if " +
			"anywhere. Changes nothing and connects to nothing. The status is 1 if something is " +
			"broken. A system that cannot enforce the whole sandbox is not broken: the setting " +
			"`sandbox` of a tool says what happens then.\n\n" +
			"With --launcher it starts that launcher of your config, goes through each step of a " +
			"launch, and says of the one that fails what is wrong and what to do. The status is 1 " +
			"then. It needs a workspace that is trusted.",
		Flags:    []*command.Option{command.String(&launcher, "launcher", "LAUNCHER", "try a launch by this launcher instead")},
		Exits:    []exit.Status{exit.Failed},
		Examples: []string{"jp doctor", "jp doctor -F json | jq .sandbox", "jp doctor --launcher gpu"},
		Run: func(ctx context.Context, _ []string) error {
			if launcher.Set {
				return g.runDoctorLauncher(ctx, launcher.Value)
			}
			e := g.examine(ctx)
			if err := g.writeExamined(e); err != nil {
				return err
			}
			if len(e.Errors) > 0 || e.Trust == "trusted" && e.Query != "starts" { // without trust nothing is broken yet
				return exit.Quiet(exit.Failed)
			}
			return nil
		},
	})
}

func (g *Group) examine(ctx context.Context) examined {
	can := proc.Enforceable()
	e := examined{
		OS:      runtime.GOOS + "/" + runtime.GOARCH,
		Sandbox: sandbox{LandlockABI: can.LandlockABI, Seccomp: can.Seccomp, IOUring: runtime.GOOS == "linux" && !can.Seccomp, Missing: append([]string{}, can.Missing...)},
		Adopts:  proc.Adopts(), Providers: []providerKey{},
		Store: storeAt{State: "none"}, Config: []string{}, Keys: []string{}, Findings: []lint.Finding{}, Errors: []string{},
	}
	fail := func(err error) { e.Errors = append(e.Errors, err.Error()) }
	switch st, err := g.WS.Store(ctx); {
	case errors.Is(err, profiles.ErrNoWorkspace):
	case err != nil:
		fail(err)
	default:
		e.Store.Path = st.Path()
		if _, err := os.Stat(st.Path()); errors.Is(err, fs.ErrNotExist) {
			e.Store.State = "not made yet"
		} else if err := st.Check(ctx); err != nil {
			e.Store.State = wording.Either(errors.As(err, new(*convstore.DamagedError)), "damaged", "not checked")
			fail(err)
		} else {
			e.Store.State = "ok"
		}
	}
	if e.Store.Path != "" {
		d, err := convstore.DiskOf(filepath.Dir(e.Store.Path))
		if err != nil {
			fail(err)
		} else if e.Disk = &d; d.Full() {
			fail(fmt.Errorf("store %s: only %s are free", e.Store.Path, byteCount(d.Free)))
		}
	}
	temp := cmp.Or(g.Con.Getenv("TMPDIR"), "/tmp")
	if d, err := convstore.DiskOf(temp); err != nil {
		fail(fmt.Errorf("TMPDIR %s: %w", temp, err))
	} else if d.Path != filepath.Clean(temp) && !exists(temp) {
		fail(fmt.Errorf("TMPDIR %s: there is no such folder, and no tool can run", temp))
	} else if e.Temp = &d; d.Full() {
		fail(fmt.Errorf("TMPDIR %s: only %s are free", temp, byteCount(d.Free)))
	}
	tty, err := g.Con.Terminal()
	if err == nil {
		_ = tty.Close()
	}
	e.Terminal = terminalSeen{Out: g.Con.IO.OutTTY, Width: g.Con.IO.Width, UTF8: g.Con.IO.UTF8, Color: g.Con.IO.Color, Answer: err == nil}
	if _, err := g.WS.Root(); err == nil {
		if src, judged, err := g.Review.Judged(ctx); err != nil {
			e.Trust, e.Query = "untrusted", console.Explain(err).Message
			fail(err)
		} else {
			e.Trust, e.Query = judged.Status(), "starts"
			if r, err := profiles.Resolve(src, nil, nil); err == nil && e.Trust == "trusted" {
				e.Model, _ = r.Config.RequireModel()
			}
			l := lint.New(ctx, g.WS, g.Env, src, judged.Files)
			if problems := l.All(ctx); len(problems) > 0 {
				e.Query = console.Explain(problems[0]).Message
			}
			e.Findings = l.Findings()
		}
	}
	if otel.Asked(g.Con.Getenv) {
		plan := otel.Look(g.Con.Getenv)
		e.Traces = &plan
		e.Errors = append(e.Errors, plan.Problems...)
	}
	var names []string
	for _, b := range model.Builtins() {
		names = append(names, b.Keys...)
	}
	if r, err := profiles.Resolve(g.WS.UserSources(), nil, nil); err != nil {
		fail(err)
	} else {
		if e.Trust != "trusted" {
			e.Model, _ = r.Config.RequireModel()
		}
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
		e.Providers = g.providerKeys(r.Config.Providers.LLM)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if g.Con.Getenv(name) != "" {
			e.Keys = append(e.Keys, name)
		}
	}
	return e
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// byteCount returns a number of bytes for people.
func byteCount(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}} {
		if n >= unit.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

// providerKeys looks up the key of each built-in and configured provider.
func (g *Group) providerKeys(configured map[string]profiles.Provider) []providerKey {
	all := map[string]profiles.Provider{}
	for _, b := range model.Builtins() {
		if b.Format != "script" {
			all[b.Name] = profiles.Provider{APIKeyEnv: b.KeyEnv(g.Con.Getenv)}
		}
	}
	for name, p := range configured {
		if p.APIKeyEnv == "" && !p.KeyWithheld {
			p.APIKeyEnv = all[name].APIKeyEnv
		}
		all[name] = p
	}
	list := make([]providerKey, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p, key := all[name], "missing"
		switch {
		case p.KeyWithheld:
			key = "withheld"
		case p.APIKeyEnv == "":
			key = "none"
		case g.Con.Getenv(p.APIKeyEnv) != "":
			key = "set"
		}
		list = append(list, providerKey{name, p.APIKeyEnv, key})
	}
	return list
}

func (g *Group) writeExamined(e examined) error {
	if g.Con.JSON() {
		return g.Con.Document(e)
	}
	return g.Con.Text(func(w *bufio.Writer) error {
		row := func(name, text string) { g.Con.Field(w, fmt.Sprintf("%-9s  ", name), term.Line(text), 11) }
		row("system", e.OS)
		row("files", wording.Either(e.Sandbox.LandlockABI > 0, fmt.Sprintf("Landlock ABI %d", e.Sandbox.LandlockABI), "no Landlock"))
		row("network", wording.Either(e.Sandbox.Seccomp, "system call filter", "no system call filter"))
		row("sandbox", wording.Either(len(e.Sandbox.Missing) > 0, "cannot enforce "+strings.Join(e.Sandbox.Missing, ", "), "whole"))
		row("io_uring", wording.Either(e.Sandbox.IOUring, "tools can use it", "tools cannot use it"))
		row("processes", wording.Either(e.Adopts, "none outlives jp (subreaper)", "one that leaves its group can outlive jp: no subreaper"))
		row("store", strings.TrimSpace(e.Store.State+"  "+e.Store.Path))
		disk := func(name string, d *convstore.Disk, more string) {
			if d != nil {
				row(name, fmt.Sprintf("%s%s, %s free%s", d.FileSystem, wording.Either(d.Network, " (network)", wording.Either(d.Memory, " (memory)", "")), byteCount(d.Free), more))
			}
		}
		if e.Disk != nil {
			disk("disk", e.Disk, wording.Either(e.Disk.Locks, ", OFD locks", ", no OFD locks"))
		}
		disk("temporary", e.Temp, "")
		if e.Trust != "" {
			row("workspace", e.Trust)
		}
		if e.Query != "" {
			row("query", wording.Either(e.Query == "starts", "would start", "would not start: "+e.Query))
		}
		row("config", cmp.Or(strings.Join(e.Config, " "), "none"))
		row("model", cmp.Or(e.Model, wording.Either(e.Trust == "", "none: `jp init` sets one", "none")))
		row("keys", cmp.Or(strings.Join(e.Keys, " "), "none set"))
		for _, p := range e.Providers {
			row("provider", p.Name+": "+wording.Either(p.Variable == "", map[string]string{"withheld": "key withheld"}[p.Key], p.Variable+" is "+p.Key)+wording.Either(p.Key == "none", "no key needed", ""))
		}
		row("terminal", fmt.Sprintf("%s, %s, questions %s", wording.Either(e.Terminal.Out, fmt.Sprintf("%d columns", e.Terminal.Width), "none"),
			wording.Either(e.Terminal.UTF8, "UTF-8", "no UTF-8"), wording.Either(e.Terminal.Answer, "can be asked", "cannot be asked")))
		if t := e.Traces; t != nil {
			row("traces", wording.Either(t.URL == "", "not sent", t.URL+wording.Either(t.Content, ", with the text of messages", "")))
		}
		for _, f := range e.Findings {
			row("check", f.String())
		}
		for _, text := range e.Errors {
			row("broken", text)
		}
		return nil
	})
}
