package cli

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// version is the version of this source tree; a build of a tagged module knows better.
const version = "0.1.0-dev"

type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // "" when the build does not know it
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func newVersionCommand(a *app) *cli.Command {
	return a.command(spec{
		Name: "version", Summary: "show the version of this program",
		About:    "Reads no file and opens no store.",
		Examples: []string{"jp version -F json"},
		Run: func(context.Context, []string) error {
			v := versionInfo{Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
			if info, ok := debug.ReadBuildInfo(); ok {
				if m := info.Main.Version; m != "" && m != "(devel)" {
					v.Version = m
				}
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						v.Revision = s.Value
					}
				}
			}
			if a.json() {
				return a.document(v)
			}
			_, err := fmt.Fprintf(a.io.Out, "jp %s %s/%s %s\n", v.Version, v.OS, v.Arch, v.Go)
			return err
		},
	})
}
