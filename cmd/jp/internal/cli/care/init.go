package care

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/trust"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
	"jp/profiles"
	"jp/tools/files"
)

type initOptions struct {
	model command.Maybe[string]
	yes   bool
}

// NewInit returns the command `jp init`.
func NewInit(g *Group) *cli.Command {
	var o initOptions
	return g.Tree.Command(command.Spec{
		Name: "init", Summary: "make a workspace", Args: "[PATH]",
		About: "Writes .jp/config.toml, .jp/.gitignore and the profiles agent/researcher and " +
			"agent/planner (below .jp/config) into PATH. Without PATH it uses the working " +
			"directory. Files that exist are not changed. A folder around " +
			"the store, such as your home folder, cannot be a workspace.\n\n" +
			"On a terminal it asks which model to use. It lists the models for which this machine " +
			"has a key or a server (Ollama, llama.cpp). --model proposes a model. With --yes it " +
			"asks nothing and uses --model, or else the first model of the list. If jp knows a " +
			"cheaper model of the same provider, the sub-agents get that one.\n\n" +
			"jp trusts the files that it wrote. If other files were there before, such as AGENTS.md, it " +
			"shows on a terminal what they allow, and asks. Otherwise they need `jp trust`.",
		Flags: []*command.Option{
			command.Model(&o.model, "MODEL", "model of the main agent: provider/model or an alias"),
			command.Bool(&o.yes, "yes", "ask nothing"),
		},
		Max:   1,
		Exits: []exit.Status{exit.NotFound, exit.Refused},
		Examples: []string{
			"jp init",
			"jp init ~/src/project --model ollama/qwen3 --yes",
		},
		Run: func(ctx context.Context, args []string) error { return runInit(ctx, g, o, args) },
	})
}

// initResult is what `jp init` did.
type initResult struct {
	Workspace string   `json:"workspace"`
	Model     string   `json:"model"`
	SubModel  string   `json:"sub_model"` // model of the sub-agents
	Created   []string `json:"created"`   // slash-separated, below the workspace
	Kept      []string `json:"kept"`      // existed before
}

func runInit(ctx context.Context, g *Group, o initOptions, args []string) error {
	dir := g.Con.Env.Dir
	if len(args) > 0 {
		dir = g.Con.Abs(args[0])
	}
	if dir == "" {
		return exit.NotFoundf("working directory: it is gone")
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return exit.NotFoundf("init %s: not a folder", dir).WithHint("`mkdir` makes it")
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("init: %w", err)
	}
	if err := g.keepsOut(ctx, dir); err != nil {
		return err
	}
	id, err := g.chooseModel(ctx, o, dir)
	if err != nil {
		return err
	}
	const config, agents = ".jp/config.toml", ".jp/config/agent/"
	result := initResult{Workspace: dir, Model: id, SubModel: model.Cheaper(id), Created: []string{}, Kept: []string{}}
	written := map[string][]byte{}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("init: %w", err)
	}
	defer func() { _ = root.Close() }()
	if info, err := root.Lstat(".jp"); err == nil && !info.IsDir() {
		return exit.Refusedf("init %s: it is not a folder", filepath.Join(dir, ".jp"))
	}
	all := profiles.InitFiles(id, result.SubModel)
	for _, f := range all { // before any of them: a link may be in the way of the second one
		if err := root.MkdirAll(filepath.Dir(filepath.FromSlash(f.Name)), 0o755); err != nil {
			if errors.As(err, new(syscall.Errno)) {
				return fmt.Errorf("init: %w", err)
			}
			return exit.Refusedf("init %s: %v", dir, err).WithHint("`jp init PATH` makes it in another folder")
		}
	}
	for _, f := range all {
		made, err := files.CreateIn(root, filepath.FromSlash(f.Name), f.Data)
		if err != nil {
			return fmt.Errorf("init: %w", err)
		}
		if made {
			result.Created = append(result.Created, f.Name)
			written[f.Name] = f.Data
		} else {
			result.Kept = append(result.Kept, f.Name)
		}
	}
	if slices.Contains(result.Kept, config) {
		g.Con.Note("%s was there before and stays as it is: `jp config set %s` makes %s its model", config, wording.ShellWord("assistant.model="+id), id)
	}
	if result.SubModel != id && slices.ContainsFunc(result.Created, func(name string) bool { return strings.HasPrefix(name, agents) }) {
		g.Con.Note("sub-agents get %s, which costs less: %s*.toml", result.SubModel, agents)
	}
	if err := g.trustInit(ctx, dir, written, o.yes); err != nil {
		return err
	}
	if g.Con.JSON() {
		return g.Con.Document(result)
	}
	if g.Con.Pretty() {
		defer g.Con.Note("next: jp query \"What does this project do?\"")
	}
	return g.Con.Text(func(w *bufio.Writer) error {
		for _, name := range result.Created {
			fmt.Fprintf(w, "created %s\n", term.Escape(filepath.Join(dir, filepath.FromSlash(name))))
		}
		for _, name := range result.Kept {
			fmt.Fprintf(w, "kept %s\n", term.Escape(filepath.Join(dir, filepath.FromSlash(name))))
		}
		return nil
	})
}

// keepsOut refuses a workspace around the place of its store. No query would start there, nor in a
// workspace below.
func (g *Group) keepsOut(ctx context.Context, dir string) error {
	record, _, err := g.WS.Gate.RecordPath(ctx, dir)
	if place, ok := errors.AsType[*convstore.PlaceError](err); ok && place.Workspace != "" {
		return err
	}
	if err != nil || !files.Within(dir, record) {
		return nil // trustInit says what else is wrong
	}
	return exit.Usagef("init %s: its conversations are kept in %s, where tools of this workspace could reach them",
		dir, filepath.Dir(record)).WithHint("make a workspace in a folder below; or $JP_STORE or store.path in the user's config.toml names another place for them")
}

// trustInit trusts the files that init wrote, and asks about those that were there before. Where
// nobody can be asked, or the answer is no, a note says what is not trusted.
func (g *Group) trustInit(ctx context.Context, dir string, written map[string][]byte, unasked bool) error {
	err := g.WS.Gate.Written(ctx, dir, written)
	if err == nil {
		var j trust.Judgement
		if j, err = g.WS.Gate.Judge(ctx, dir); err == nil && !j.OK() {
			if err = j.Refusal(); !unasked {
				err = g.WS.Gate.Ask(ctx, &j)
			}
		}
	}
	if f := (*exit.Error)(nil); errors.As(err, &f) && f.Code == "untrusted" {
		g.Con.Note("%v", f)
		g.Con.Note("%s", f.Hint)
	} else if ctx.Err() != nil {
		return err
	} else if err != nil {
		g.Con.Warn("not trusted yet: %v", err)
	}
	return nil
}
