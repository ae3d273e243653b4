package cli

import (
	"runtime/debug"
	"testing"
)

func TestBuilt(t *testing.T) {
	for module, want := range map[string]string{
		"": version, "(devel)": version, "v0.0.0-20261122041926-fbea1a060312": version, "v0.0.0-20261122041926-fbea1a060312+dirty": version,
		"v1.2.3": "1.2.3", "v1.2.4-0.20261122041926-fbea1a060312": "1.2.4-0.20261122041926-fbea1a060312",
	} {
		v := versionInfo{Version: version}
		v.built(&debug.BuildInfo{Main: debug.Module{Version: module}, Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-22T04:19:26Z"},
		}})
		if v.Version != want || v.Revision != "abc" || v.Day != "2026-11-22" {
			t.Errorf("built(%q) = %+v, want version %q", module, v, want)
		}
	}
}
