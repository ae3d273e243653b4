package care

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/version"
)

// NewVersion returns the command `jp version`.
func NewVersion(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "version", Summary: "show the version of this program",
		About:    "Reads no file and opens no store.",
		Examples: []string{"jp version -F json"},
		Run: func(context.Context, []string) error {
			v := version.OfBuild()
			if g.Con.JSON() {
				return g.Con.Document(v)
			}
			revision := ""
			if v.Revision != "" {
				revision = " (" + v.Revision[:min(len(v.Revision), 12)] + ")"
			}
			_, err := fmt.Fprintf(g.Con.IO.Out, "jp %s%s %s/%s %s\n", v.Version, revision, v.OS, v.Arch, v.Go)
			return err
		},
	})
}
