package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jp/convstore"
)

// mcpSite is a workspace whose main agent and sub-agent call a tool of an MCP server that hangs;
// more is what else its entry says.
func mcpSite(t *testing.T, more string) *site {
	const hang = `
[conversation.tools.hang]
source = "mcp.test"
run = "unattended"
`
	return newSite(t, map[string]string{
		"../home/config/jp/config.toml": "[providers.mcp.test]\ncommand = \"mcp-server\"\nargs = [\"plain\"]\n" + more,
		".jp/config.toml":               treeConfig + hang,
		".jp/config/agent/child.toml":   "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"script/child.toml\"\n" + hang,
		"main.toml": `
[[rule]]
query = "child"
round = 1
tool_calls = [{ name = "jp_query", arguments = { config = "agent/child", query = "hang" } }]
[[rule]]
round = 1
tool_calls = [{ name = "hang", arguments = { text = "" } }]
[[rule]]
text = "after all"
`,
		"child.toml": "[[rule]]\nround = 1\ntool_calls = [{ name = \"hang\", arguments = { text = \"\" } }]\n[[rule]]\ntext = \"after all\"\n",
	})
}

// TestMCPServerEndsWithItsAgent: nothing of a server is left, however the jp that uses it ends.
func TestMCPServerEndsWithItsAgent(t *testing.T) {
	for where, more := range map[string]string{"main": "", "child": "", "main confined": "sandbox = \"auto\"\n", "child confined": "sandbox = \"auto\"\n"} {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
			t.Run(where+" "+sig.String(), func(t *testing.T) {
				s := mcpSite(t, more)
				cmd, out := s.start(nil, "jp", "query", "--new", strings.Fields(where)[0])
				s.eventually("the call to run", func() bool {
					return len(s.running("mcp-server plain")) > 0 && strings.Contains(s.calls(), "hang")
				})
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait()
				if p := s.processes(); sig == syscall.SIGINT && len(p) != 0 {
					t.Errorf("left when jp had ended: %v\n%s", p, out)
				}
				s.gone()
			})
		}
	}
}

// calls names the tools that were called in all conversations, and what they returned.
func (s *site) calls() string {
	s.t.Helper()
	var names []string
	for _, c := range s.all() {
		for ev, err := range s.store.Events(s.t.Context(), c.ID, convstore.Range{}) {
			if err != nil {
				s.t.Fatal(err)
			}
			switch b := ev.Body.(type) {
			case convstore.ToolCall:
				names = append(names, b.Name)
			case convstore.ToolResult:
				names = append(names, "result: "+b.Text)
			}
		}
	}
	return strings.Join(names, " ")
}

// TestMCPServersEndTogether: of a tree that is stopped no server waits for the end of one further
// down. Each here ends only when two have been asked to. The root has one too, since it has
// recorded its tools.
func TestMCPServersEndTogether(t *testing.T) {
	const (
		query = "[conversation.tools.jp_query]\nsource = \"delegation\"\nrun = \"unattended\"\n"
		echo  = "[conversation.tools.echo]\nsource = \"mcp.test\"\nrun = \"unattended\"\n"
		call  = "[[rule]]\nround = 1\ntool_calls = [{ name = \"echo\", arguments = { text = \"x\" } }]\n[[rule]]\nround = 2\n"
		down  = "tool_calls = [{ name = \"jp_query\", arguments = { config = \"agent/%[1]s\", query = \"%[1]s\" } }]\n"
		child = "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"script/%s.toml\"\n" + echo
	)
	s := newSite(t, map[string]string{
		"../home/config/jp/config.toml": "[providers.mcp.test]\ncommand = \"bash\"\nargs = [\"serve.sh\"]\n",
		"serve.sh": "trap '' INT TERM\nmcp-server plain\n[ -e armed ] || exit 0\ntouch \"asked.$$\"\n" +
			"until set -- asked.* && [ $# -ge 2 ]; do sleep 0.01; done\ntouch \"together.$$\"\n",
		".jp/config.toml":             "[assistant]\nmodel = \"script/main.toml\"\n" + query + "[delegation]\nprofiles = [\"agent/upper\"]\nmax_depth = 2\n",
		".jp/config/agent/upper.toml": fmt.Sprintf(child, "upper") + query + "[delegation]\nprofiles = [\"agent/lower\"]\nmax_depth = 1\n",
		".jp/config/agent/lower.toml": fmt.Sprintf(child, "lower"),
		"main.toml":                   "[[rule]]\nround = 1\n" + fmt.Sprintf(down, "upper") + "[[rule]]\ntext = \"done\"\n",
		"upper.toml":                  call + fmt.Sprintf(down, "lower"),
		"lower.toml":                  call + "hang = true\n",
	})
	cmd, out := s.start(nil, "jp", "query", "--new", "go")
	s.eventually("both results", func() bool { return strings.Count(s.calls(), "result: x") == 2 })
	if err := os.WriteFile(filepath.Join(s.dir, "armed"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGINT, cmd.Process.Pid)
	_ = cmd.Wait()
	if list, _ := filepath.Glob(filepath.Join(s.dir, "together.*")); len(list) != 3 {
		t.Errorf("%d of 3 servers ended by themselves\n%s", len(list), out)
	}
	s.gone()
}

// A run ends its servers and its launchers at the same time: each here ends only when the other has
// been asked to.
func TestServersAndLaunchersEndTogether(t *testing.T) {
	const together = "touch asked.%[1]s\nuntil [ -e asked.%[2]s ]; do sleep 0.01; done\ntouch together.%[1]s\n"
	s := newSite(t, map[string]string{
		"../home/config/jp/config.toml": "[providers.mcp.test]\ncommand = \"bash\"\nargs = [\"serve.sh\"]\n[launchers.here]\ncommand = [\"bash\", \"launch.sh\"]\n",
		"serve.sh":                      "mcp-server plain\n" + fmt.Sprintf(together, "server", "launcher"),
		"launch.sh":                     "\"$@\"\n" + fmt.Sprintf(together, "launcher", "server"),
		".jp/config.toml": "[assistant]\nmodel = \"script/main.toml\"\n[conversation.tools.jp_query]\nsource = \"delegation\"\nrun = \"unattended\"\n" +
			"[conversation.tools.echo]\nsource = \"mcp.test\"\nrun = \"unattended\"\n[delegation]\nprofiles = [\"agent/sub\"]\n",
		".jp/config/agent/sub.toml": "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"script/sub.toml\"\n",
		"main.toml": "[[rule]]\nround = 1\ntool_calls = [{ name = \"echo\", arguments = { text = \"x\" } }]\n[[rule]]\nround = 2\n" +
			"tool_calls = [{ name = \"jp_query\", arguments = { config = \"agent/sub\", query = \"q\" } }]\n[[rule]]\ntext = \"done\"\n",
		"sub.toml": "[[rule]]\ntext = \"here\"\n",
	})
	cmd, out := s.start(nil, "jp", "query", "--new", "--launcher", "here", "go")
	_ = cmd.Wait()
	if list, _ := filepath.Glob(filepath.Join(s.dir, "together.*")); len(list) != 2 {
		t.Errorf("%v ended by themselves\n%s", list, out)
	}
	s.gone()
}
