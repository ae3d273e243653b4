package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"jp/tools/fs"
)

// TestInTime: a deadline returns without what hangs, and waits for what is only slow.
func TestInTime(t *testing.T) {
	late := errors.New("time is up")
	for _, test := range []struct {
		takes time.Duration // after the end of the context; 0 = for ever
		want  string
	}{{time.Second, "done"}, {0, "time is up (it did not stop and was left behind)"}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, late)
			defer cancel()
			hung := make(chan struct{})
			defer close(hung)
			r, err := inTime(ctx, leftAfter, func() (Result, error) {
				if test.takes == 0 {
					<-hung
				} else {
					time.Sleep(time.Minute + test.takes)
				}
				return Result{Text: "done"}, nil
			})
			got := r.Text
			if err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("inTime = %q, want %q", got, test.want)
			}
			if test.takes == 0 && !errors.Is(err, late) {
				t.Errorf("inTime = %v, which is not %v", err, late)
			}
		})
	}
}

// TestInTimePanics: a panic reaches whoever runs the tool, who makes a result of it.
func TestInTimePanics(t *testing.T) {
	defer func() {
		if p, _ := recover().(string); !strings.HasPrefix(p, "broken\n") {
			t.Errorf("recovered %q, want broken", p)
		}
	}()
	_, _ = inTime(t.Context(), leftAfter, func() (Result, error) { panic("broken") })
}

// TestBuiltinOutside: nobody is asked about a call whose path is outside of what the tool may
// reach.
func TestBuiltinOutside(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	workspace := filepath.Join(top, "ws")
	if err := errors.Join(os.MkdirAll(filepath.Join(workspace, ".jp"), 0o700), os.WriteFile(filepath.Join(workspace, "in"), []byte("text"), 0o600),
		os.WriteFile(filepath.Join(top, "out"), []byte("secret"), 0o600), os.Symlink("../out", filepath.Join(workspace, "link"))); err != nil {
		t.Fatal(err)
	}
	list, err := Builtin(fs.Env{Workspace: workspace})
	if err != nil {
		t.Fatal(err)
	}
	set, err := NewSet(list...)
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	run := Executor{Set: set, Permit: func(_ context.Context, _ Tool, c Call) (Decision, error) {
		asked = append(asked, c.ID)
		return Decision{Allow: true}, nil
	}}
	var calls []Call
	for i, c := range [][2]string{
		{"fs_read_file", "../out"}, {"fs_read_file", "link"}, {"fs_read_file", ".jp/config.toml"}, {"fs_list_files", "/"}, {"fs_grep_files", "/etc"},
		{"fs_create_file", "../new"}, {"fs_create_file", "AGENTS.md"}, {"fs_modify_file", "/etc/passwd"},
		{"fs_read_file", "in"}, {"fs_read_file", "nothing"}, {"fs_create_file", "new"},
	} {
		more := map[string]string{"fs_grep_files": `, "pattern": "x"`, "fs_create_file": `, "content": "x"`, "fs_modify_file": `, "edits": [{"old": "a", "new": "b"}]`}[c[0]]
		calls = append(calls, Call{ID: strconv.Itoa(i), Name: c[0], Arguments: json.RawMessage(fmt.Sprintf(`{"path": %q%s}`, c[1], more))})
	}
	for c, r := range run.Run(t.Context(), calls) {
		if refused := c.ID < "8" && len(c.ID) == 1; r.Refused != refused {
			t.Errorf("%s %s = %+v, want refused %v", c.Name, c.Arguments, r, refused)
		}
	}
	if want := []string{"8", "9", "10"}; !slices.Equal(asked, want) {
		t.Errorf("asked about %v, want %v", asked, want)
	}
}
