// Package version knows which build of jp this is.
package version

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// Version is the version of this source tree. A build of a tagged module has its own.
const Version = "0.1.0-dev"

// Info is what is known of this program.
type Info struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // "" when the build does not know it
	Day      string `json:"-"`        // of the commit, as 2026-11-22; "" when the build does not know it
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// OfBuild returns what is known of this program.
func OfBuild() Info {
	v := Info{Version: Version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, _ := debug.ReadBuildInfo()
	v.built(info)
	return v
}

// built adds what the build knows: the tag that it was made from, if any, and the commit.
func (v *Info) built(info *debug.BuildInfo) {
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
			v.Day, _, _ = strings.Cut(s.Value, "T")
		}
	}
}
