package care

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/version"
	"jp/cmd/jp/internal/worker"
	"jp/tools/proc"
)

// ownConfig begins why a worker refuses to run anything where its own config cannot be read.
const ownConfig = "its own config: "

// NewWorker returns the command `jp worker`.
func NewWorker(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "worker", Summary: "run sub-agents for a jp on another machine",
		About: "A jp elsewhere starts this command through a launcher of its config, such as ssh or " +
			"srun. It runs the sub-agents that this jp sends, each as a process of its own, and " +
			"carries what they say. It opens no store, reads no config of a workspace and has no " +
			"key.\n\n" +
			"When the other jp is gone, or says nothing for the lease of the launcher, all " +
			"sub-agents are ended within two seconds. The first SIGTERM or Ctrl-C lets them hand in " +
			"what they have. The second kills them.",
		Exits:    []exit.Status{exit.Hangup, exit.Interrupted, exit.Quit, exit.Terminated},
		Examples: []string{"jp worker"},
		Run: func(ctx context.Context, _ []string) error {
			if g.Con.IO.InTTY {
				return exit.Usagef("worker: is started by jp through a launcher").WithHint("docs/scale.md says how")
			}
			// What runs in the background of a shell ignores SIGINT, and so would the
			// sub-agents, which are stopped by it. What is caught here has its default again in
			// them.
			signal.Notify(make(chan os.Signal, 1), os.Interrupt)
			v := version.OfBuild()
			host := proc.NewHost(proc.Options{})
			ctx, stop := g.Con.WithSignals(ctx, host.Kill)
			defer stop()
			n := worker.Node{
				Stdin: g.Con.Env.Stdin, Stdout: g.Con.Env.Stdout, Host: host, Environ: g.Con.Env.Environ,
				Build: v.Version + " " + v.Revision, Warn: g.Con.Warn,
			}
			if m, err := g.Env.WS.Machine(); err != nil {
				n.Refused = fmt.Errorf("%s%w", ownConfig, err)
			} else {
				n.Kept = g.Env.WS.Reads()
				n.Environ = slices.DeleteFunc(slices.Clone(n.Environ), func(kv string) bool {
					name, _, _ := strings.Cut(kv, "=")
					return m.Providers.IsKey(name)
				})
				if m.Log.File != "" && g.Con.Getenv("JP_LOG_FILE") == "" {
					n.Environ = append(n.Environ, "JP_LOG_FILE="+m.Log.File)
				}
			}
			return errors.Join(n.Serve(ctx), host.Close())
		},
	})
}
