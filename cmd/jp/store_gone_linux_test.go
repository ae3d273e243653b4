package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAnswerNotStored: an answer that was paid for and cannot be stored any more, here since the
// store was moved away, is printed all the same. The exit status and a message say that it was not
// stored, and no other store takes the place of this one.
func TestAnswerNotStored(t *testing.T) {
	for _, tt := range []struct {
		name   string
		args   []string
		stdin  string
		stdout string
		stored string
	}{
		{"text", []string{"query", "--new", "ask"}, "", "what was paid for\n", "the answer was not stored: store "},
		{"json", []string{"query", "--new", "ask", "--output-format", "json"}, "", `"is_error":true,`, "the answer was not stored: store "},
		{"batch", []string{"batch", "-c", "agent/child", "--parallel", "1"}, "\"ask\"\n\"more\"\n", `{"conversation_id":"jp-c`, `"status":"lost","reason":"its conversation cannot be read: store `},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var s *site
			model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				dir := filepath.Dir(s.store.Path())
				if err := os.Rename(dir, dir+".away"); err != nil {
					t.Error(err)
				}
				w.Header().Set("Content-Type", "text/event-stream")
				for _, data := range []string{
					`{"choices":[{"index":0,"delta":{"content":"what was paid for"}}]}`,
					`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, "[DONE]",
				} {
					_, _ = fmt.Fprintf(w, "data: %s\n\n", data)
				}
			}))
			t.Cleanup(model.Close)
			s = newSite(t, map[string]string{
				".jp/config.toml":             "[assistant]\nmodel = \"local/m\"\n",
				".jp/config/agent/child.toml": "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"local/m\"\n",
			})
			s.stdin = tt.stdin
			user := filepath.Join(s.home, "config", "jp", "config.toml")
			if err := os.MkdirAll(filepath.Dir(user), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(user, []byte("[providers.llm.local]\ntype = \"openai\"\nbase_url = \""+model.URL+"/v1\"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd, out := s.start(nil, append([]string{"jp"}, tt.args...)...)
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != 1 {
				t.Errorf("exit = %d, want 1", got)
			}
			for _, want := range []string{tt.stdout, "what was paid for", tt.stored, "was removed or moved away while it was in use"} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in:\n%s", want, out)
				}
			}
			dir := filepath.Dir(s.store.Path())
			if _, err := os.Lstat(dir); err == nil {
				t.Errorf("another store was made")
			}
			if err := os.Rename(dir+".away", dir); err != nil {
				t.Fatal(err)
			}
		})
	}
}
