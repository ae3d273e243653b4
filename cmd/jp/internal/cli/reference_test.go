package cli

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
)

var update = flag.Bool("update", false, "write docs/cli.md")

func TestReference(t *testing.T) {
	const path = "../../../../docs/cli.md"
	got := newApp(console.Env{}).reference()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("docs/cli.md is not what the commands say: run `make generate`")
	}
}

// reference is docs/cli.md: the help of every command, and the table of exit statuses.
func (a *app) reference() string {
	var b strings.Builder
	b.WriteString("# jp: command reference\n\n" +
		"Made from the commands themselves: change them, then `make generate`.\n\n" +
		"## Exit statuses\n\n| status | meaning |\n|---|---|\n")
	for _, m := range exit.Table() {
		fmt.Fprintf(&b, "| %d | %s |\n", m.Status, m.Text)
	}
	b.WriteString("\nNew statuses may be added.\n")
	a.referenceOf(&b, nil, a.tree.Root.Commands)
	return b.String()
}

func (a *app) referenceOf(b *strings.Builder, path []*cli.Command, subs []*cli.Command) {
	fmt.Fprintf(b, "\n## %s\n\n```text\n", command.Name(path))
	_ = a.tree.Help(b, 100, path) // a strings.Builder takes all
	b.WriteString("```\n")
	for _, c := range subs {
		if !c.Hidden {
			a.referenceOf(b, append(slices.Clone(path), c), c.Subcommands)
		}
	}
}
