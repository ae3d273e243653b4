package version

import (
	"runtime/debug"
	"testing"
)

func TestBuilt(t *testing.T) {
	for module, want := range map[string]string{
		"": Version, "(devel)": Version, "v0.0.0-20261122041926-fbea1a060312": Version, "v0.0.0-20261122041926-fbea1a060312+dirty": Version,
		"v1.2.3": "1.2.3", "v1.2.4-0.20261122041926-fbea1a060312": "1.2.4-0.20261122041926-fbea1a060312",
	} {
		v := Info{Version: Version}
		v.built(&debug.BuildInfo{Main: debug.Module{Version: module}, Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-22T04:19:26Z"},
		}})
		if v.Version != want || v.Revision != "abc" || v.Day != "2026-11-22" {
			t.Errorf("built(%q) = %+v, want version %q", module, v, want)
		}
	}
}
