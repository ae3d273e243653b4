package care

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/trust"
	"jp/cmd/jp/internal/wording"
	"jp/profiles"
	"jp/tools/unseen"
)

// NewTrust returns the command `jp trust`.
func NewTrust(g *Group) *cli.Command {
	var show, diff, revoke, yes bool
	var named []profiles.Directive
	return g.Tree.Command(command.Spec{
		Name: "trust", Summary: "show what this workspace would allow, and trust it",
		About: "A workspace is code: its config gives commands to tools and lets them run. jp loads " +
			"nothing of it before you trust it: neither .jp with everything in it, nor skills, " +
			"AGENTS.md, CLAUDE.md or .mcp.json. You trust these files as they are now. If one " +
			"changes, jp shows what differs and asks again; `d` shows the changed lines. No workspace can set machine " +
			"settings (keys, addresses, the store), trusted or not.\n\n" +
			"JP_TRUST_WORKSPACE=1 trusts everything that is there without a question, for CI.",
		Flags: []*command.Option{
			command.Bool(&show, "show", "only show what it would allow, and every file with its state"),
			command.Bool(&diff, "diff", "only show what differs from what was trusted, also in the files"),
			command.Bool(&revoke, "revoke", "end the trust, and the approvals of the workspace's MCP servers"),
			command.Bool(&yes, "yes", "trust without a question"),
			command.Call("cfg", "X", "show and trust also what this config gives, as `jp query` takes it; in order", func(text string) error {
				named = append(named, profiles.Directive{Flag: "--cfg", Text: text})
				return nil
			}),
		},
		Exits:    []exit.Status{exit.NotFound, exit.Refused},
		Examples: []string{"jp trust", "jp trust --diff", "jp trust --show -F json", "jp trust --yes", "jp trust --cfg dev --cfg .jp/ci.toml"},
		Run: func(ctx context.Context, _ []string) error {
			if err := command.OnlyOne(map[string]bool{"--show": show, "--diff": diff, "--revoke": revoke, "--yes": yes}, "--show", "--diff", "--revoke", "--yes"); err != nil {
				return err
			}
			if revoke && len(named) > 0 {
				return exit.Usagef("--cfg: not with --revoke, which ends all trust")
			}
			g.Review.Named = named
			return runTrust(ctx, g, show, diff, revoke, yes)
		},
	})
}

func runTrust(ctx context.Context, g *Group, show, diff, revoke, yes bool) error {
	root, err := g.WS.Root()
	if err != nil {
		return err
	}
	if revoke {
		return g.revokeTrust(ctx, root)
	}
	j, err := g.WS.Gate.Judge(ctx, root)
	if err != nil {
		return err
	}
	s, err := g.Review.Page(ctx, j)
	if err != nil {
		return err
	}
	for _, a := range s.Agents {
		if a.Named() && a.Problem != "" && len(a.Tools) == 0 {
			return exit.Usagef("%s: gives nothing to show or trust: %s", a.Name, a.Problem)
		}
	}
	if !show && !diff && (j.Record == nil || len(j.Changes) > 0 || j.Record.Shown == nil || !j.Record.Shown.Has(s.Shown)) {
		if j.Path == "" {
			return exit.Refusedf("workspace %s: there is no folder for the record", root).WithHint("set HOME or XDG_STATE_HOME")
		}
		if yes {
			err = g.WS.Gate.Record(ctx, &j, s.Shown)
		} else {
			err = g.WS.Gate.Ask(ctx, &j)
			if f := (*exit.Error)(nil); errors.As(err, &f) && f.Code == "untrusted" {
				f.Hint = fmt.Sprintf("`jp trust` asks on a terminal; elsewhere read `jp trust --%s`, then run `jp trust --yes`", wording.Either(j.Record == nil, "show", "diff"))
			}
		}
		if err != nil {
			return err
		}
		if j, err = g.WS.Gate.Judge(ctx, root); err != nil {
			return err
		}
		if !j.OK() { // a file has changed while we asked
			return j.Refusal()
		}
		if s, err = g.Review.Page(ctx, j); err != nil {
			return err
		}
	}
	if diff {
		s.AddDiffs(j)
	}
	if g.Con.JSON() {
		return g.Con.Document(s)
	}
	if diff {
		return g.Con.Paged(func() error {
			_, err := io.WriteString(g.Con.IO.Out, term.Rows(s.DiffRows(wording.Either(g.Con.Pretty(), g.Con.IO.Width, 0)), g.Con.IO.Color))
			return err
		})
	}
	text := s.Whole()
	if show {
		return g.Con.Paged(func() error { return g.Con.LaidOut(text) })
	}
	first, _, _ := strings.Cut(text, "\n")
	_, err = io.WriteString(g.Con.IO.Out, first+"\n")
	return err
}

func (g *Group) revokeTrust(ctx context.Context, root string) error {
	file, _, err := g.WS.Gate.RecordPath(ctx, root)
	if err != nil {
		return err
	}
	unlock, err := trust.LockFile(ctx, file+".lock")
	if err != nil {
		return fmt.Errorf("trust record: %w", err)
	}
	defer unlock()
	for _, file := range []string{file, trust.KeptBeside(file)} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("trust record: %w", err)
		}
	}
	if err := g.Env.Servers.Forget(ctx); err != nil {
		return err
	}
	if g.Con.JSON() {
		return g.Con.Document(map[string]string{"workspace": root, "status": "untrusted"})
	}
	_, err = fmt.Fprintf(g.Con.IO.Out, "workspace %s: not trusted\n", unseen.Spell(root))
	return err
}
