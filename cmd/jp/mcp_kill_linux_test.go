package main

import (
	"strings"
	"syscall"
	"testing"

	"jp/convstore"
)

// mcpSite is a workspace whose main agent and sub-agent call a tool of an MCP server that hangs; more is what else its entry says.
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

// calls names the tools that were called in all conversations.
func (s *site) calls() string {
	s.t.Helper()
	var names []string
	for _, c := range s.all() {
		for ev, err := range s.store.Events(s.t.Context(), c.ID, convstore.Range{}) {
			if err != nil {
				s.t.Fatal(err)
			}
			if call, ok := ev.Body.(convstore.ToolCall); ok {
				names = append(names, call.Name)
			}
		}
	}
	return strings.Join(names, " ")
}
