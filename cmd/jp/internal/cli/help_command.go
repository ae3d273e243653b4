package cli

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
	"jp/cmd/jp/internal/version"
	"jp/tools/unseen"
)

// newHelpCommand is `jp help COMMAND...`, the same as `jp COMMAND... --help`.
func newHelpCommand(a *app) *cli.Command {
	return a.tree.Command(command.Spec{
		Name: "help", Paged: true, Summary: "show what a command does", Args: "[COMMAND...]", Max: -1,
		Examples: []string{"jp help conversation ls"},
		Run: func(_ context.Context, args []string) error {
			path, err := a.tree.CommandPath(args)
			if err != nil {
				return err
			}
			return a.tree.Help(a.con.IO.Out, a.con.IO.Width, path)
		},
	})
}

func newManCommand(a *app) *cli.Command {
	return a.tree.Command(command.Spec{
		Name: "man", Summary: "print the manual page", Args: "[COMMAND...]", Max: -1,
		About: "The page of jp with all its commands, or of one command, in the form that man reads. It says what --help says.",
		Examples: []string{
			"jp man > ~/.local/share/man/man1/jp.1",
			"jp man conversation grep | man -l -",
		},
		Run: func(_ context.Context, args []string) error {
			path, err := a.tree.CommandPath(args)
			if err != nil {
				return err
			}
			v := version.OfBuild()
			_, err = io.WriteString(a.con.IO.Out, a.tree.Manual(path, v.Version, v.Day))
			return err
		},
	})
}

func newCompletionCommand(a *app) *cli.Command {
	return a.tree.Command(command.Spec{
		Name: "completion", Summary: "print a completion script for a shell", Args: "bash|zsh|fish",
		About: "The script asks this program for what could come next: commands, flags, conversations with their titles, profiles, " +
			"tools, models and settings. Nothing is changed or waited for, and no file read of a workspace that is not trusted.\n\n" +
			"bash: add `eval \"$(jp completion bash)\"` to ~/.bashrc. zsh: `jp completion zsh > ~/.zfunc/_jp` with that folder in " +
			"fpath. fish: `jp completion fish > ~/.config/fish/completions/jp.fish`.",
		Min: 1, Max: 1,
		Exits:    []exit.Status{},
		Examples: []string{`jp completion bash`},
		Run: func(_ context.Context, args []string) error {
			script := command.Completion(args[0])
			if script == "" {
				return exit.Usagef("completion: unknown shell %q", args[0]).WithHint("%s", command.DidYouMean(args[0], []string{"bash", "zsh", "fish"}, "bash, zsh or fish"))
			}
			_, err := io.WriteString(a.con.IO.Out, script)
			return err
		},
	})
}

// complete writes what could stand in place of the last word: WORD, a tab, what it means. Nothing means file names.
func (a *app) complete(words []string) error {
	if len(words) == 0 {
		words = []string{""}
	}
	return a.con.Text(func(w *bufio.Writer) error {
		for _, c := range a.tree.Candidates(words[:len(words)-1], words[len(words)-1], a.knownNow) {
			if unseen.Spell(c.Word) != c.Word {
				continue // a word of which not all shows would be more than one candidate, or another than it seems
			}
			fmt.Fprintln(w, c.Word+"\t"+term.Line(c.Text))
		}
		return nil
	})
}

// knownNow are the values to choose from for a command line whose global flags are set.
func (a *app) knownNow(arg, word string) []command.Candidate {
	a.con.IO = a.con.OpenIO()
	return choices.New(a.con, a.ws, a.env.Servers).For(context.Background(), arg, word)
}

func newVersionCommand(a *app) *cli.Command {
	return a.tree.Command(command.Spec{
		Name: "version", Summary: "show the version of this program",
		About:    "Reads no file and opens no store.",
		Examples: []string{"jp version -F json"},
		Run: func(context.Context, []string) error {
			v := version.OfBuild()
			if a.con.JSON() {
				return a.con.Document(v)
			}
			revision := ""
			if v.Revision != "" {
				revision = " (" + v.Revision[:min(len(v.Revision), 12)] + ")"
			}
			_, err := fmt.Fprintf(a.con.IO.Out, "jp %s%s %s/%s %s\n", v.Version, revision, v.OS, v.Arch, v.Go)
			return err
		},
	})
}
