package config

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/trust"
	"jp/profiles"
)

func newFormatCommand(g *Group) *cli.Command {
	var check, user bool
	return g.Tree.Command(command.Spec{
		Name: "fmt", Summary: "format config files", Args: "[FILE...]", Max: -1,
		About: "Formats the workspace's config, profiles and tools, or only the given files of it, " +
			"or with --user your own config.toml. The form is: one space around =, an empty line " +
			"before a table, no indentation. Comments, order and values do not change. Prints the " +
			"names of the files that it changes. The workspace has to be trusted and stays " +
			"trusted. With --check nothing is written, and the workspace need not be trusted.",
		Flags: []*command.Option{
			command.Bool(&check, "check", "only print the names of files that would change; status 2 if there are any"),
			command.Bool(&user, "user", "format your own config.toml"),
		},
		Exits:    []exit.Status{exit.NotFound, exit.Busy, exit.Refused},
		Examples: []string{"jp config fmt", "jp config fmt --check"},
		Run: func(ctx context.Context, args []string) error {
			if user && len(args) > 0 {
				return exit.Usagef("config fmt: --user and FILE: give only one")
			}
			return runFormat(ctx, g, check, user, args)
		},
	})
}

func runFormat(ctx context.Context, g *Group, check, user bool, args []string) error {
	if !check && !user {
		if _, err := g.WS.Gate.Pass(ctx); err != nil { // the question comes before the lock, so that others do not wait
			return err
		}
	}
	if !check {
		unlock, err := g.lockConfig(ctx)
		if err != nil {
			return err
		}
		defer unlock()
	}
	files, err := g.formatted(ctx, check, user, args)
	if err != nil {
		return err
	}
	var changed []editedFile
	var texts [][]byte
	for _, f := range files { // format all before the first is written
		out, err := profiles.Format(f.old)
		if err != nil {
			if bad, ok := errors.AsType[*profiles.Error](err); ok {
				bad.File = f.name
			}
			return err
		}
		if !bytes.Equal(out, f.old) {
			changed, texts = append(changed, f), append(texts, out)
		}
	}
	names := make([]string, len(changed))
	for i := range changed {
		names[i] = g.WS.Relative(changed[i].name)
		if check {
			continue
		}
		changed[i].same = true
		if err := changed[i].write(ctx, texts[i]); err != nil {
			return fmt.Errorf("config fmt: %w", err)
		}
	}
	if g.Con.JSON() {
		err = g.Con.Document(names)
	} else {
		err = g.Con.Text(func(w *bufio.Writer) error {
			for _, n := range names {
				fmt.Fprintln(w, term.Line(n))
			}
			return nil
		})
	}
	if err == nil && check && len(names) > 0 {
		return exit.Quiet(exit.Usage)
	}
	return err
}

// formatted returns the files that the command line names, sorted by name.
func (g *Group) formatted(ctx context.Context, check, user bool, args []string) ([]editedFile, error) {
	if user {
		f, err := g.userConfig()
		if err == nil && !f.had {
			err = exit.NotFoundf("%s: there is none", f.name)
		}
		return []editedFile{f}, err
	}
	root, err := g.WS.Root()
	if err != nil {
		return nil, err
	}
	var files *trust.Files
	if check {
		var j trust.Judgement
		j, err = g.WS.Gate.Judge(ctx, root)
		files = j.Files
	} else {
		files, err = g.trustedNow(ctx)
	}
	if err != nil {
		return nil, err
	}
	var keys []string
	for key := range files.Data {
		if path.Ext(key) == ".toml" && strings.HasPrefix(key, ".jp/") && files.Stamps[key] == trust.DataStamp(files.Data[key]) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	if len(args) > 0 {
		var named []string
		for _, arg := range args {
			rel, err := filepath.Rel(root, g.Con.Abs(arg))
			if key := filepath.ToSlash(rel); err == nil && slices.Contains(keys, key) {
				named = append(named, key)
				continue
			}
			return nil, exit.NotFoundf("%s: not a config file of this workspace", arg).WithHint("`jp config fmt` takes the .toml files below .jp")
		}
		keys = slices.Compact(slices.Sorted(slices.Values(named)))
	}
	list := make([]editedFile, len(keys))
	for i, key := range keys {
		if list[i], err = g.workspaceConfig(files, key); err != nil {
			return nil, err
		}
	}
	return list, nil
}
