package care

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/version"
	"jp/cmd/jp/internal/wording"
	"jp/cmd/jp/internal/worker"
	"jp/profiles"
	"jp/profiles/launch"
	"jp/tools/proc"
)

// launched has the findings of doctor about a launcher.
type launched struct {
	Launcher string   `json:"launcher"`
	Command  []string `json:"command"` // as config has it, with what follows it
	Host     string   `json:"host"`    // of the node; "" = none has answered
	Steps    []step   `json:"steps"`   // all of them, in their order
}

// step is a step of a launch.
type step struct {
	Name  string  `json:"step"`
	State string  `json:"state"` // ok, broken, or "not tried" after one that is broken
	Text  string  `json:"text"`
	MS    float64 `json:"ms"`   // time that it took; 0 = not measured
	Cure  string  `json:"cure"` // of what is broken
}

// runDoctorLauncher goes through a launch by the launcher name.
func (g *Group) runDoctorLauncher(ctx context.Context, name string) error {
	r, err := g.Env.Implicit(ctx)
	if err != nil {
		return err
	}
	l, err := r.Config.FindLauncher(name)
	if err != nil {
		return err
	}
	options, err := g.Env.Launch(name, l)
	if err != nil {
		return err
	}
	once := *l
	once.Attempts = 1
	host := proc.NewHost(proc.Options{})
	ctx, stop := g.Con.WithSignals(ctx, host.Kill)
	defer stop()
	options.Launcher, options.Host = &once, host
	pool := worker.NewPool(options)
	g.Con.Note("launcher %s: waits for a worker, at most %v", name, l.Queue)
	found := pool.Probe(ctx)
	pool.Close()
	err = errors.Join(context.Cause(ctx), host.Close())
	if err != nil {
		return err
	}
	d := launched{Launcher: name, Command: l.Line("{run}"), Host: found.Host, Steps: steps(name, l, found)}
	if err := g.writeLaunched(d); err != nil {
		return err
	}
	for _, s := range d.Steps {
		if s.State != "ok" {
			return exit.Quiet(exit.Failed)
		}
	}
	return nil
}

// steps returns what a probe has found.
func steps(name string, l *profiles.Launcher, f worker.Found) []step {
	all := []struct {
		step worker.Step
		text string
		took time.Duration
	}{
		{worker.StepStart, "a worker on " + f.Host + " has answered", f.Start},
		{worker.StepProtocol, "the same; jp there is " + f.Build, 0},
		{worker.StepWorkspace, wording.Either(l.Workspace == launch.None, "the files that are trusted were sent", "its trusted files are the same there"), 0},
		{worker.StepSandbox, "enforces there what it enforces here", 0},
		{worker.StepProcess, "a process of a sub-agent began and ended there", f.Process},
		{worker.StepRoundTrip, "of a line and its answer", f.RoundTrip},
	}
	var list []step
	broken := false
	for _, s := range all {
		at := step{Name: string(s.step), State: "ok", Text: s.text, MS: float64(s.took.Microseconds()) / 1000}
		switch {
		case broken:
			at = step{Name: at.Name, State: "not tried"}
		case f.Err != nil && f.Err.Step == s.step:
			broken = true
			at = step{Name: at.Name, State: "broken", Text: strings.TrimPrefix(f.Err.Error(), "launcher "+name+": "), Cure: cure(name, l, f.Err)}
		}
		list = append(list, at)
	}
	return list
}

// cure says what to do about a step that has failed.
func cure(name string, l *profiles.Launcher, err *worker.StepError) string {
	setting := func(key string) string { return "launchers." + name + "." + key }
	var ended *worker.ExitError
	switch err.Step {
	case worker.StepProtocol:
		return "install jp " + version.OfBuild().Version + " there, which this machine has"
	case worker.StepWorkspace:
		if strings.Contains(err.Error(), ownConfig) {
			return "mend that file there: `jp config show` there says the same"
		}
		return "bring the same files there, or set " + setting("workspace") + ` = "none"`
	case worker.StepSandbox:
		return "`jp doctor` there says what is missing; it takes Linux with Landlock and system call filters"
	case worker.StepProcess, worker.StepRoundTrip:
		return "`jp query --help` there should print its help"
	}
	hand := "`" + strings.Join(l.Command, " ") + " " + l.Program + " version`, by hand and without a terminal, shows why"
	switch {
	case strings.Contains(err.Error(), "stop command: "):
		return "install it, or name it by its path in " + setting("stop")
	case errors.As(err.Cause, new(*fs.PathError)):
		return "install it, or name it by its path in " + setting("command")
	case strings.Contains(err.Error(), "Permission denied ("):
		return "ssh must log in without a question: with a key that has no passphrase, or an agent and " + setting("env") + ` = ["SSH_AUTH_SOCK"]`
	case strings.Contains(err.Error(), "Host key verification failed"):
		return "ssh must know the key of the host: connect once by hand, and compare and confirm it"
	case errors.As(err.Cause, &ended) && (ended.Exit.Code == 127 || ended.Exit.Code == 126):
		return "install jp there, or name it by its path in " + setting("program")
	case errors.Is(err.Cause, worker.ErrQueue):
		return "if it takes that long, set " + setting("queue") + "; else " + hand
	case errors.As(err.Cause, new(*worker.LineError)):
		return setting("command") + " must lead to jp, without a terminal (-t, --tty, --pty) and with nothing else that speaks; " + hand
	}
	return hand
}

func (g *Group) writeLaunched(d launched) error {
	if g.Con.JSON() {
		return g.Con.Document(d)
	}
	return g.Con.Text(func(w *bufio.Writer) error {
		row := func(name, text string) { g.Con.Field(w, fmt.Sprintf("%-10s  ", name), term.Line(text), 12) }
		row("launcher", strings.Join(d.Command, " "))
		for _, s := range d.Steps {
			took := ""
			if s.MS > 0 {
				took = fmt.Sprintf(", %.1f ms", s.MS)
			}
			row(s.Name, cmp.Or(strings.TrimSuffix(s.State+": "+s.Text, ": "))+took)
			if s.Cure != "" {
				row("", s.Cure)
			}
		}
		return nil
	})
}
