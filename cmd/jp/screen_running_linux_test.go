package main

import (
	"fmt"
	"regexp"
	"syscall"
	"testing"
)

// TestScreenRunning: what runs, seen from another terminal: in a list, and while it goes on.
func TestScreenRunning(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": "[assistant]\nmodel = \"script/model.toml\"\n[delegation]\nprofiles = [\"agent/scout\"]\n" +
			"[conversation.tools.jp_query]\nrun = \"unattended\"\n",
		".jp/config/agent/scout.toml": "[assistant]\nmodel = \"script/scout.toml\"\n[conversation.tools.fs_list_files]\nrun = \"unattended\"\n",
		"model.toml":                  screenModel,
		"scout.toml":                  scoutModel,
	})
	cmd, said := s.start(nil, "jp", "query", "--new", "stuck")
	s.eventually("the sub-agent waits for its model", func() bool {
		for _, c := range s.all() {
			if c.Profile == "agent/scout" && c.Events >= 5 {
				return true
			}
		}
		return false
	})
	env, times := []string{"JP_PAGER=cat"}, regexp.MustCompile(` +\+?[0-9.]+m?s\b`)
	for _, cols := range []int{40, 80, 200} {
		for name, p := range map[string]play{
			"ps-%d.txt":           {args: []string{"ps"}},
			"follow-%d.txt":       {args: []string{"c", "print", "recent", "--follow"}, until: "I send", typed: "\x03"},
			"follow-trace-%d.txt": {args: []string{"trace", "recent", "--follow"}, until: "list_files", typed: "\x03"},
		} {
			p.cols, p.env = cols, env
			_, end, status := perform(t, s, p)
			if want := map[bool]int{true: -1}[p.typed != ""]; status != want { // -1: ended by the signal
				t.Errorf("%s: status %d, want %d", name, status, want)
			}
			golden(t, fmt.Sprintf(name, cols), times.ReplaceAllString(end, " 0s"))
		}
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("status %d\n%s", cmd.ProcessState.ExitCode(), said)
	}
}
