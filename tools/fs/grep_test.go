package fs

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

// A file that is not small is searched when there is room for it, whichever call has taken that. A
// call that has ended keeps none, also if it is left behind.
func TestGrepWaitsForRoom(t *testing.T) {
	tree := newTree(t, map[string]string{"small": "x" + strings.Repeat(" ", smallFile-1), "large": "x" + strings.Repeat(" ", smallFile)})
	synctest.Test(t, func(t *testing.T) {
		f, err := Open(Env{Workspace: tree.dir}, []Rule{{Path: ".", Mode: ReadOnly}})
		if err != nil {
			t.Fatal(err)
		}
		answer := ""
		search := func(ctx context.Context, path string) {
			text, err := grepFiles(ctx, f, SmallResult, fmt.Appendf(nil, `{"pattern":"x","path":%q,"max_matches":9}`, path))
			answer = fmt.Sprint(strings.Contains(text, path+":1:x"), err)
		}
		want := func(what, want string) {
			t.Helper()
			synctest.Wait()
			if answer != want {
				t.Errorf("%s: %q, want %q", what, answer, want)
			}
			answer = ""
		}

		ctx, cancel := context.WithCancel(t.Context())
		left := &grep{walk: &walk{ctx: ctx}}
		if _, err := left.reserve(maxSearching); err != nil {
			t.Fatal(err)
		}
		go search(t.Context(), "small")
		want("a small file without room", "true <nil>")
		impatient, end := context.WithCancel(t.Context())
		go search(impatient, "large")
		want("a large file without room", "")
		end()
		want("after the end of its call", "false context canceled")
		go search(t.Context(), "large")
		want("a large file without room", "")
		cancel()
		want("after the end of the call that took the room", "true <nil>")
		if !room().TryAcquire(maxSearching) {
			t.Error("a search has kept room")
		}
		room().Release(maxSearching)
	})
}
