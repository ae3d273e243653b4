package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/run"
	"jp/profiles"
)

// trustApp is a jp in a workspace with these files, with a state folder of its own.
func trustApp(t testing.TB, files map[string]string, environ ...string) (a *app, root string) {
	t.Helper()
	base := t.TempDir()
	root = filepath.Join(base, "work")
	if err := os.MkdirAll(filepath.Join(root, ".jp"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFiles(t, root, files)
	return newApp(console.Env{
		Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Dir: root,
		Environ: append([]string{"HOME=" + filepath.Join(base, "home"), "JP_NONINTERACTIVE=1"}, environ...),
	}), root
}

func writeFiles(t testing.TB, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHold exchanges a file between the gate and its loading.
func TestHold(t *testing.T) {
	a, root := trustApp(t, map[string]string{".jp/config.toml": "assistant.name = \"one\"\n"}, "JP_TRUST_WORKSPACE=1")
	src, err := a.ws.Sources(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.ws.Resolve(src, nil, nil); err != nil {
		t.Fatalf("resolve: %v", err)
	}
	writeFiles(t, root, map[string]string{".jp/config.toml": "assistant.name = \"two\"\n"})
	for _, src := range []profiles.Sources{src, {Workspace: root, Dir: root}} {
		_, err := a.ws.Resolve(src, nil, nil)
		if r := console.Explain(err); r.Code != "untrusted" || r.Status != exit.Refused {
			t.Errorf("resolve of an exchanged file: %+v", r)
		}
	}
	// Nobody who forgot the gate gets the workspace's files.
	b, root := trustApp(t, map[string]string{".jp/config.toml": "assistant.name = \"one\"\n", ".jp/tools/t.toml": "x"})
	if _, err := b.ws.Root(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.ws.Resolve(profiles.Sources{Workspace: root, Dir: root}, nil, nil); console.Explain(err).Code != "untrusted" {
		t.Errorf("resolve without the gate: %v", err)
	}
	if files, err := b.ws.Gate.Tools(context.Background()); len(files) != 0 || err != nil {
		t.Errorf("toolFiles without the gate = %v, %v", files, err)
	}
	if src, err := b.ws.Sources(context.Background(), nil); src.Workspace != "" || console.Explain(err).Code != "untrusted" {
		t.Errorf("sources of an untrusted workspace = %+v, %v", src, err)
	}
	if src, err := b.ws.Sources(context.Background(), run.UnderNone("")); src.Workspace != "" || err != nil {
		t.Errorf("sources under NONE = %+v, %v", src, err)
	}
}
