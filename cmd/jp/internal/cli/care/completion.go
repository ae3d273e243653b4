package care

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/choices"
	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/term"
	"jp/tools/unseen"
)

// NewCompletion returns the command `jp completion`.
func NewCompletion(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "completion", Summary: "print a completion script for a shell", Args: "bash|zsh|fish",
		About: "The script asks jp for what can come next: commands, flags, conversations with their " +
			"titles, profiles, tools, models and settings. It changes nothing, waits for nothing, " +
			"and reads no file of a workspace that is not trusted.\n\n" +
			"bash: add `eval \"$(jp completion bash)\"` to ~/.bashrc. zsh: run `jp completion zsh > " +
			"~/.zfunc/_jp`, with that folder in fpath. fish: run `jp completion fish > " +
			"~/.config/fish/completions/jp.fish`.",
		Min: 1, Max: 1,
		Exits:    []exit.Status{},
		Examples: []string{`jp completion bash`},
		Run: func(_ context.Context, args []string) error {
			script := command.Completion(args[0])
			if script == "" {
				return exit.Usagef("completion: unknown shell %q", args[0]).WithHint("%s", command.DidYouMean(args[0], []string{"bash", "zsh", "fish"}, "bash, zsh or fish"))
			}
			_, err := io.WriteString(g.Con.IO.Out, script)
			return err
		},
	})
}

// Complete writes the candidates for the last word, one a line: WORD, a tab, its meaning. No line
// means file names.
func (g *Group) Complete(words []string) error {
	if len(words) == 0 {
		words = []string{""}
	}
	return g.Con.Text(func(w *bufio.Writer) error {
		for _, c := range g.Tree.Candidates(words[:len(words)-1], words[len(words)-1], g.knownNow) {
			if unseen.Spell(c.Word) != c.Word {
				continue // invisible characters could hide another word or a second candidate
			}
			fmt.Fprintln(w, c.Word+"\t"+term.Line(c.Text))
		}
		return nil
	})
}

// knownNow returns the values to choose from, for a command line whose global flags are set.
func (g *Group) knownNow(arg, word string) []command.Candidate {
	g.Con.IO = g.Con.OpenIO()
	return choices.New(g.Con, g.WS, g.Env.Servers).For(context.Background(), arg, word)
}
