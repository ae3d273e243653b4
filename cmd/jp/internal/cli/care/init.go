package care

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/trust"
	"jp/profiles"
	"jp/tools/files"
)

type initOptions struct {
	model command.Maybe[string]
	yes   bool
}

// NewInit is `jp init`.
func NewInit(g *Group) *cli.Command {
	var o initOptions
	return g.Tree.Command(command.Spec{
		Name: "init", Summary: "make a workspace", Args: "[PATH]",
		About: "Writes .jp/config.toml, the profiles agent/researcher and agent/planner below .jp/config, and .jp/.gitignore into " +
			"PATH, the working directory when there is none. Files that exist are left as they are.\n\n" +
			"Asks which model to use when somebody can answer, listing those for which this machine has a key or a server (Ollama, " +
			"llama.cpp); otherwise --yes takes the first of them, or what --model names. What it wrote is trusted (`jp trust`), what was there " +
			"before is not.",
		Flags: []*command.Option{
			command.String(&o.model, "model", "MODEL", "the model of the main agent: provider/model").Alias("m"),
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
	Created   []string `json:"created"` // slash-separated, below the workspace
	Kept      []string `json:"kept"`    // existed before
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
	id, err := g.chooseModel(ctx, o, dir)
	if err != nil {
		return err
	}
	result := initResult{Workspace: dir, Model: id, Created: []string{}, Kept: []string{}}
	written := map[string][]byte{}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("init: %w", err)
	}
	defer func() { _ = root.Close() }()
	if info, err := root.Lstat(".jp"); err == nil && !info.IsDir() {
		return exit.Refusedf("init %s: it is not a folder", filepath.Join(dir, ".jp"))
	}
	for _, f := range profiles.InitFiles(id) {
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
	g.trustInit(ctx, dir, written)
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

// trustInit trusts what was written, and says what stands beside it that was not.
func (g *Group) trustInit(ctx context.Context, dir string, written map[string][]byte) {
	err := g.WS.Gate.Written(ctx, dir, written)
	if err == nil {
		var j trust.Judgement
		if j, err = g.WS.Gate.Judge(ctx, dir); err == nil && !j.OK() {
			g.Con.Note("%v", j.Refusal())
			g.Con.Note("what was there before `jp init` is not trusted by it; `jp trust` shows it and asks")
		}
	}
	if err != nil {
		g.Con.Warn("not trusted yet: %v", err)
	}
}
