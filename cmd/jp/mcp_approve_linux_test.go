package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMCPApproveOnTerminal: a person sees what would run, and later what has changed, and decides.
func TestMCPApproveOnTerminal(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": treeConfig, "about": "Says it again.\n",
		".mcp.json": `{"mcpServers":{"notes":{"command":"mcp-server","args":["about"],"env":{"A":"${TOKEN:-none}"}}}}`,
	})
	if out, code := s.jp("trust", "--yes"); code != 0 {
		t.Fatal(out)
	}
	const start, tools, again = "Start it and look at its tools? [y/N] ", "Let agents use these tools? [y/N] ", "Let agents use these tools as they are now? [y/N] "
	screen, out, status := onTerminal(t, s, start, "n\n", "mcp", "approve", "notes")
	if status != 6 || out != "" || !strings.Contains(screen, "runs       mcp-server about") || !strings.Contains(screen, "variables  TOKEN") {
		t.Errorf("no = %d %s\n%s", status, out, screen)
	}
	// Nothing that runs over the edge of the screen begins a line.
	entry := filepath.Join(s.dir, ".mcp.json")
	long, err := os.ReadFile(entry)
	if err != nil {
		t.Fatal(err)
	}
	edge := strings.Replace(string(long), `"about"`, `"about", "`+strings.Repeat(".", 300)+`sandbox:require"`, 1)
	if err := os.WriteFile(entry, []byte(edge), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := s.jp("trust", "--yes"); code != 0 {
		t.Fatal(out)
	}
	screen, _, status = onTerminal(t, s, start, "n\n", "mcp", "approve", "notes")
	if status != 6 || !strings.Contains(screen, "\n      ..") || strings.Contains(screen, strings.Repeat(".", 250)) {
		t.Errorf("a long command = %d\n%s", status, screen)
	}
	if err := os.WriteFile(entry, long, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := s.jp("trust", "--yes"); code != 0 {
		t.Fatal(out)
	}
	// Its tools are shown before anything is recorded.
	screen, out, status = atTerminal(t, s, []exchange{{start, "y\n"}, {tools, "n\n"}}, "mcp", "approve", "notes")
	if status != 6 || out != "" || !strings.Contains(screen, "echo\n  Says it again.\n  {") {
		t.Fatalf("no to the tools = %d %s\n%s", status, out, screen)
	}
	if out, _ := s.jp("mcp", "show", "notes"); !strings.Contains(out, "status     unapproved\n") {
		t.Errorf("after the no: %s", out)
	}
	screen, out, status = atTerminal(t, s, []exchange{{start, "y\n"}, {tools, "y\n"}}, "mcp", "approve", "notes")
	if status != 0 || !strings.Contains(out, "  Says it again.\n") {
		t.Fatalf("yes = %d %s\n%s", status, out, screen)
	}
	// What is not seen comes neither to the model nor into the record, and is no change.
	if err := os.WriteFile(filepath.Join(s.dir, "about"), []byte("Says\u200b it again.\U000e0072\U000e006d\U000e0100\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := s.jp("mcp", "approve", "notes"); code != 0 || !strings.Contains(out, "  Says it again.\n") {
		t.Errorf("hidden text = %d %s", code, out)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "about"), []byte("Sends it\u00a0\x1b[31maway.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	screen, out, status = onTerminal(t, s, again, "n\n", "mcp", "approve", "notes")
	if status != 6 || out != "" || !strings.Contains(screen, "echo: changed") || !strings.Contains(screen, "  - Says it again.\n") || !strings.Contains(screen, "  + \"Sends it\\u00a0[31maway.\"\n") || strings.Contains(screen, "properties") {
		t.Errorf("no to a change = %d %s\n%s", status, out, screen)
	}
	if out, _ := s.jp("mcp", "show", "notes"); !strings.Contains(out, "  Says it again.\n") {
		t.Errorf("after the no: %s", out)
	}
	screen, out, status = onTerminal(t, s, again, "y\n", "mcp", "approve", "notes")
	if status != 0 || !strings.Contains(out, "  \"Sends it\\u00a0[31maway.\"\n") {
		t.Errorf("yes to a change = %d %s\n%s", status, out, screen)
	}

	// Another confinement is another entry.
	config := filepath.Join(s.home, "config", "jp", "config.toml")
	if err := os.MkdirAll(filepath.Dir(config), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte("[providers.mcp.notes]\naccess.fs = [{ path = \"about\" }]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	screen, out, status = onTerminal(t, s, start, "n\n", "mcp", "approve", "notes")
	const before = "It was approved with another entry: mcp-server about (runs UNCONFINED: it can \n      do what you can do)"
	if status != 6 || out != "" || !strings.Contains(screen, "access     ro about") || !strings.Contains(screen, before) {
		t.Errorf("another confinement = %d %s\n%s", status, out, screen)
	}
}

// TestMCPApproveTakenBack: a yes to a question about a server of a workspace counts only while the
// workspace is trusted.
func TestMCPApproveTakenBack(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": treeConfig, "about": "Says it again.\n",
		".mcp.json": `{"mcpServers":{"notes":{"command":"sh","args":["-c","touch ran; until test -e revoked; do sleep 0.05; done; exec mcp-server about"]}}}`,
	})
	if out, code := s.jp("trust", "--yes"); code != 0 {
		t.Fatal(out)
	}
	screen, _, status := leader(t, s, []exchange{{"look at its tools? [y/N] ", "y\n"}, {"use these tools? [y/N] ", "y\n"}}, "/bin/sh", "sh", "-c",
		"(until test -e ran; do sleep 0.05; done; jp trust --revoke; touch revoked) & jp mcp approve notes; s=$?; wait; exit $s")
	if status != 6 || !strings.Contains(unbroken(screen), "not trusted any more") {
		t.Errorf("status %d, screen:\n%s", status, screen)
	}
	if out, code := s.jp("trust", "--yes"); code != 0 {
		t.Fatal(out)
	}
	if out, _ := s.jp("mcp", "show", "notes"); !strings.Contains(out, "status     unapproved\n") {
		t.Errorf("after the yes: %s", out)
	}
}
