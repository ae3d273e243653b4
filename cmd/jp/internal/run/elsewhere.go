package run

import (
	"context"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/record"
	"jp/cmd/jp/internal/subprocess"
	"jp/cmd/jp/internal/worker"
	"jp/convstore"
	"jp/profiles"
	"jp/profiles/launch"
	"jp/tools/proc"
)

// far are the launchers of a run or session. Safe for concurrent use.
type far struct {
	chosen command.Maybe[string] // launcher of all sub-agents, which a person chose; "" = none

	mu    sync.Mutex
	table map[string]*profiles.Launcher // of the root; nil = no sub-agent was started
	pools map[string]*worker.Pool       // by launcher
}

// LauncherFlag is the flag with which a person chooses where sub-agents run.
func LauncherFlag(name *command.Maybe[string]) *command.Option {
	return command.String(name, "launcher", "LAUNCHER", `start all sub-agents of this run by a launcher of your config; "" starts them here`)
}

// WaitFlag is the flag with which a person lets a run wait for a limit of a provider to reset.
func WaitFlag(limit *command.Maybe[time.Duration]) *command.Option {
	return command.Duration(limit, "wait-limit", "DURATION", "wait up to DURATION for a limit of a provider to reset (default: 2m)")
}

// choose starts all sub-agents by the launcher of a flag, if that is given.
func (s site) choose(cfg profiles.Config, flag command.Maybe[string]) error {
	s.far.chosen = flag
	if flag.Value == "" {
		return nil
	}
	_, err := cfg.FindLauncher(flag.Value)
	return err
}

// place is delegate.Options.Place. The config that the store has of a sub-agent names its launcher,
// unless a person has chosen one.
func (s site) place(ctx context.Context, of delegate.Below) (subprocess.Runner, error) {
	k, err := s.kindOf(ctx, of)
	if err != nil {
		return nil, err
	}
	name := k.launcher
	if s.far.chosen.Set {
		name = s.far.chosen.Value
	}
	if name == "" {
		return nil, nil
	}
	refuse := func(format string, args ...any) (subprocess.Runner, error) {
		return nil, &subprocess.EndError{State: convstore.StateRefused, Reason: fmt.Sprintf("launcher %s: ", name) + fmt.Sprintf(format, args...)}
	}
	if s.env.Tape.Replays() {
		return refuse("a replay runs on this machine: --launcher '' starts all sub-agents here")
	}
	p, err := s.pool(name)
	if err != nil {
		return nil, err
	}
	if s.env.Tape != nil {
		return taped{p, s.env.Tape}, nil
	}
	return p, nil
}

// taped runs sub-agents elsewhere, which send what they record to their owner.
type taped struct {
	subprocess.Runner
	tape *record.Tape
}

func (t taped) Run(ctx context.Context, job subprocess.Job) (proc.Exit, error) {
	job.Environ = t.tape.Elsewhere(job.Environ)
	return t.Runner.Run(ctx, job)
}

// pool returns the connections of a launcher.
func (s site) pool(name string) (*worker.Pool, error) {
	s.far.mu.Lock()
	defer s.far.mu.Unlock()
	if p := s.far.pools[name]; p != nil {
		return p, nil
	}
	l, err := profiles.Config{Launchers: s.far.table}.FindLauncher(name)
	if err != nil {
		return nil, err
	}
	o, err := s.env.Launch(name, l)
	if err != nil {
		return nil, err
	}
	o.Host = s.Host
	p := worker.NewPool(o)
	s.far.pools[name] = p
	return p, nil
}

// Launch returns what a connection by a launcher needs, without a Host.
func (env *Env) Launch(name string, l *profiles.Launcher) (o worker.Options, err error) {
	o = worker.Options{Name: name, Launcher: l, Environ: env.Con.Env.Environ, Log: env.Con.Logger(), Warn: env.Con.Warn}
	if o.Dir, err = env.WS.Root(); err != nil {
		return o, err
	}
	if o.Secrets, err = record.SecretNames(env.Con, env.WS); err != nil {
		return o, err
	}
	if o.Workspace, err = env.WS.Gate.Send(l.Workspace == launch.None); err != nil {
		return o, err
	}
	o.Workspace.Kept = env.WS.Kept().Sent(o.Dir, o.Workspace.Copied)
	if !utf8.ValidString(fmt.Sprint(o.Workspace.Kept)) {
		return o, exit.Refusedf("launcher %s: the path of the store, the config or something in it is no UTF-8, and cannot be closed elsewhere", name)
	}
	return o, nil
}

// close ends all connections. No sub-agent is running.
func (f *far) close() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var all sync.WaitGroup
	for _, p := range f.pools {
		all.Go(p.Close)
	}
	all.Wait()
	clear(f.pools)
}
