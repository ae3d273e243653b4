package cli

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
)

// version is the version of this source tree; a build of a tagged module knows better.
const version = "0.1.0-dev"

type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // "" when the build does not know it
	day      string // of the commit, as 2026-11-22; "" when the build does not know it
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func newVersionCommand(a *app) *cli.Command {
	return a.tree.Command(command.Spec{
		Name: "version", Summary: "show the version of this program",
		About:    "Reads no file and opens no store.",
		Examples: []string{"jp version -F json"},
		Run: func(context.Context, []string) error {
			v := versionInfo{Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
			info, _ := debug.ReadBuildInfo()
			v.built(info)
			if a.con.JSON() {
				return a.con.Document(v)
			}
			revision := ""
			if v.Revision != "" {
				revision = " (" + v.Revision[:min(len(v.Revision), 12)] + ")"
			}
			_, err := fmt.Fprintf(a.con.Io.Out, "jp %s%s %s/%s %s\n", v.Version, revision, v.OS, v.Arch, v.Go)
			return err
		},
	})
}

// built adds what the build knows: the tag it was made from, if any, and the commit.
func (v *versionInfo) built(info *debug.BuildInfo) {
	if info == nil {
		return
	}
	// Without a tag it is (devel), or v0.0.0 with a time and a commit.
	if m := info.Main.Version; m != "" && m != "(devel)" && !strings.HasPrefix(m, "v0.0.0-") {
		v.Version = strings.TrimPrefix(m, "v")
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.day, _, _ = strings.Cut(s.Value, "T")
		}
	}
}
