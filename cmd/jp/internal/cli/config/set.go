package config

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/models"
	"jp/cmd/jp/internal/trust"
	"jp/profiles"
	"jp/tools/unseen"
)

// settingWritten is one setting that `config set` wrote, or that `config unset` took out.
type settingWritten struct {
	Key   string `json:"key"`
	Value any    `json:"value"` // null = taken out
	File  string `json:"file"`
	Line  int    `json:"line"`  // 0 = taken out
	Holds bool   `json:"holds"` // false if a later layer sets another value, or another layer sets one
}

func newSetCommand(g *Group) *cli.Command {
	var user bool
	return g.Tree.Command(command.Spec{
		Name: "set", Summary: "change settings in a config file", Args: "KEY=VALUE...", Min: 1, Max: -1,
		About: "Writes into the workspace's .jp/config.toml, or with --user into your own " +
			"config.toml, which is made if it does not exist. Comments, order and everything else " +
			"in the file do not change. KEY=VALUE and KEY:=JSON are as in --cfg.\n\n" +
			"jp checks the new config first. If it has a mistake, nothing is written. The " +
			"workspace has to be trusted and stays trusted.",
		Flags: []*command.Option{command.Bool(&user, "user", "write your own config.toml, for all workspaces; only this file can hold machine settings")},
		Exits: []exit.Status{exit.NotFound, exit.Busy, exit.Refused},
		Examples: []string{
			"jp config set assistant.model=anthropic/claude-sonnet-5-5",
			`jp config set conversation.tools.fs_read_file.run=unattended 'delegation.profiles:=["agent/researcher"]'`,
			"jp config set --user editor.cmd='code --wait'",
		},
		Run: func(ctx context.Context, args []string) error {
			return g.change(ctx, "config set", user, args, profiles.Edit)
		},
	})
}

func newUnsetCommand(g *Group) *cli.Command {
	var user bool
	return g.Tree.Command(command.Spec{
		Name: "unset", Summary: "take settings out of a config file", Args: "KEY...", Min: 1, Max: -1,
		About: "Takes a setting, or a table with all its settings, out of the workspace's " +
			".jp/config.toml, or with --user out of your own config.toml. Everything else in the file " +
			"does not change. `jp config explain KEY` says what sets it.\n\n" +
			"jp checks the new config first. If it has a mistake, nothing is written. The " +
			"workspace has to be trusted and stays trusted.",
		Flags:    []*command.Option{command.Bool(&user, "user", "change your own config.toml, for all workspaces")},
		Exits:    []exit.Status{exit.NotFound, exit.Busy, exit.Refused},
		Examples: []string{"jp config unset delegation.max_parallel", "jp config unset conversation.tools.fs_create_file"},
		Run: func(ctx context.Context, args []string) error {
			return g.change(ctx, "config unset", user, args, func(text []byte, d profiles.Directive) (profiles.Edited, error) {
				return profiles.Unset(text, d.Text)
			})
		},
	})
}

// change makes one edit of a config file for each argument and writes the file if the config that
// comes of it is right.
func (g *Group) change(ctx context.Context, name string, user bool, args []string, edit func([]byte, profiles.Directive) (profiles.Edited, error)) error {
	if !user {
		if _, err := g.WS.Root(); err != nil {
			return err
		}
		if _, err := g.WS.Gate.Pass(ctx); err != nil { // the question comes before the lock, so that others do not wait
			return err
		}
	}
	unlock, err := g.lockConfig(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	src := g.WS.UserSources()
	var file editedFile
	var files *trust.Files
	if user {
		file, err = g.userConfig()
	} else {
		if files, err = g.trustedNow(ctx); err == nil {
			file, err = g.workspaceConfig(files, ".jp/config.toml")
		}
		src = g.WS.SourcesOf(files)
	}
	if err != nil {
		return err
	}
	text, written := file.old, make([]settingWritten, len(args))
	for i, arg := range args {
		word := name
		if len(args) > 1 {
			word = fmt.Sprintf("%s: word %d", name, i+1) // the word itself may hold a secret
		}
		e, err := edit(text, profiles.Directive{Flag: word, Text: arg})
		if err != nil {
			var bad *profiles.Error
			if errors.As(err, &bad) && bad.Layer == "" {
				bad.File = file.name
			}
			return err
		}
		if slices.ContainsFunc(written[:i], func(w settingWritten) bool { return w.Key == e.Key }) {
			return exit.Usagef("%s: %s: is there twice", word, e.Key)
		}
		text, written[i] = e.Text, settingWritten{Key: e.Key, Value: e.Value, File: file.name}
	}
	r, err := g.checkWritten(src, files, file.name, text)
	if err != nil {
		return err
	}
	for i := range written {
		w := &written[i]
		w.Holds = w.Value == nil
		for _, o := range r.Origin(w.Key) {
			if o.File == w.File {
				w.Line = o.Line // the last line of the key: a later setting may have moved it
			}
			if !o.Dropped {
				w.Holds = o.File == w.File
			}
		}
	}
	if err := file.write(ctx, text); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, w := range written {
		if !w.Holds && w.Value == nil {
			g.Con.Note("%s: %s sets it too", w.Key, g.WS.Relative(r.WrittenAt(w.Key).String()))
		} else if !w.Holds {
			g.Con.Note("%s: %s sets another value, which overrides it", w.Key, g.WS.Relative(r.WrittenAt(w.Key).String()))
		}
	}
	if g.Con.JSON() {
		return g.Con.Document(written)
	}
	return g.Con.Text(func(w *bufio.Writer) error {
		for _, s := range written {
			if s.Value == nil {
				fmt.Fprintf(w, "%s\n", unseen.Spell(fmt.Sprintf("%s: %s is no longer set", g.WS.Relative(s.File), s.Key)))
				continue
			}
			b, err := console.EncodeJSON(s.Value, false)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "%s\n", unseen.Spell(fmt.Sprintf("%s:%d: %s = %s", g.WS.Relative(s.File), s.Line, s.Key, strings.TrimSpace(string(b)))))
		}
		return nil
	})
}

// checkWritten resolves the config with text as the content of file. It checks the models that the
// config names and, in a workspace, the tools that it enables.
func (g *Group) checkWritten(src profiles.Sources, c *trust.Files, file string, text []byte) (*profiles.Resolved, error) {
	src.Instead = map[string][]byte{file: text}
	r, err := profiles.Resolve(src, nil, nil)
	if err != nil {
		return r, err
	}
	for key, names := range models.Named(r.Config) {
		for _, name := range names {
			if _, wrong := g.Env.FindModel(r, key, name); wrong != nil {
				return r, wrong
			}
		}
	}
	if src.Workspace == "" {
		return r, nil
	}
	files, err := c.Tools()
	if err == nil {
		_, err = enabled.All(r, files)
	}
	return r, err
}
