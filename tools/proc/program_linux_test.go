package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"jp/tools/files"

	"golang.org/x/sys/unix"
)

// copySelf puts this test binary at path, as a program of its own.
func copySelf(t *testing.T, path string) {
	t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, self, 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestConfineSwappedProgram has a tool's program be a link to a folder half of the time, and the
// program itself when it is executed: what the sandbox opens for the program must be that file
// alone.
func TestConfineSwappedProgram(t *testing.T) {
	whole(t)
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := func(elem ...string) string { return filepath.Join(append([]string{base}, elem...)...) }
	for _, dir := range []string{"rw", "other"} {
		if err := os.Mkdir(in(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	secret := in("other", "secret")
	if err := os.WriteFile(secret, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	copySelf(t, in("rw", "run"))
	for _, tt := range []struct {
		name, target string
		path         string // of the tool
	}{
		{"a folder", in("other"), in("rw", "run")},
		{"the root", "/", in("rw", "run")},
		{"the file", secret, in("rw", "run")},
		{"found in PATH", in("other"), "run"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			link := in("rw", "link")
			if err := os.Symlink(tt.target, link); err != nil {
				t.Fatal(err)
			}
			defer os.Remove(link)
			var swapping sync.WaitGroup
			var stop atomic.Bool
			defer func() {
				stop.Store(true)
				swapping.Wait()
			}()
			swapping.Go(func() {
				for n := 0; !stop.Load() || n%2 == 1; n++ {
					if err := unix.Renameat2(unix.AT_FDCWD, in("rw", "run"), unix.AT_FDCWD, link, unix.RENAME_EXCHANGE); err != nil {
						t.Error(err)
						return
					}
				}
			})
			h := host(t)
			c := System()
			c.Write = append(c.Write, in("rw"))
			ran := 0
			for ran < 20 {
				var out bytes.Buffer
				exit, err := h.Run(t.Context(), Spec{Path: tt.path, Args: []string{"run", "as-probe", "read", secret},
					Env: []string{"PATH=" + in("rw")}, Dir: "/", Confine: &c, Stdout: &out})
				switch {
				case err != nil: // it was the link when it was executed
				case exit.Code == 0:
					t.Fatalf("read the secret: %+v", exit)
				case strings.Contains(out.String(), "permission denied"):
					ran++
				}
			}
		})
	}
}

// TestConfineLinkedProgram has a program be reached through links: where nobody but the user can
// have made the link, what it leads to runs.
func TestConfineLinkedProgram(t *testing.T) {
	whole(t)
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := func(elem ...string) string { return filepath.Join(append([]string{base}, elem...)...) }
	for _, dir := range []string{"ws/bin", "home/state", "home/bin", "opt"} {
		if err := os.MkdirAll(in(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	copySelf(t, in("opt", "program"))
	for link, target := range map[string]string{
		"ws/bin/run": in("opt/program"), "ws/bin/sh": "/bin/sh", "home/run": "../opt/program", "home/up": "..",
		"home/bin/run": in("opt/program"), "home/state/run": in("opt/program"), "home/two": "up/home/run",
	} {
		if err := os.Symlink(target, in(link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		path string
		open string // for reading, besides
		runs bool
	}{
		{path: "opt/program", runs: true},
		{path: "home/run", runs: true},
		{path: "home/two", runs: true},
		{path: "home/up/opt/program", runs: true},
		{path: "home/state/run", runs: true},
		{path: "home/bin/run"},
		{path: "home/bin/run", open: "opt", runs: true},
		{path: "ws/bin/run"},
		{path: "ws/bin/run", open: "opt", runs: true},
		{path: "ws/bin/sh", runs: true}, // the system's own is open
	} {
		c := System()
		c.Links = files.Links{Workspace: in("ws"), Closed: []string{in("home/state")}}
		if tt.open != "" {
			c.Read = append(c.Read, in(tt.open))
		}
		args := []string{"run", "as-noop"}
		if strings.HasSuffix(tt.path, "/sh") {
			args = []string{"sh", "-c", "exit"}
		}
		exit, err := host(t).Run(t.Context(), Spec{Path: in(tt.path), Args: args, Dir: "/", Confine: &c})
		if ran := err == nil && exit.Code == 0; ran != tt.runs {
			t.Errorf("%s, with %q open: Run = %+v, %v, want it to run: %t", tt.path, tt.open, exit, err, tt.runs)
		}
	}
}
