package conversation

import (
	"bytes"
	"runtime/debug"
	"strings"
	"testing"

	"jp/cmd/jp/internal/console"
	"jp/convstore"
)

// TestDeepTree draws a chain of 2000 conversations: its lines stop growing, and so does the stack.
func TestDeepTree(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(1 << 20))
	var out bytes.Buffer
	g := &Group{Con: console.New(console.Env{Stdout: &out, Stderr: &out, Environ: []string{"LC_ALL=C"}})}
	var chain []convstore.Conversation
	for i := range 2000 {
		chain = append(chain, convstore.Conversation{ID: convstore.ID(i + 1), Parent: convstore.ID(i)})
	}
	if err := g.printTree(chain, true); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	edge := strings.Repeat(" ", 3*29)
	for i, want := range map[int]string{
		0: "jp-c1  ", 1: "`- jp-c2  ", 30: edge + "`- jp-c31  ", 31: edge + "   `- [31] jp-c32  ", 1999: edge + "   `- [1999] jp-c2000  ",
	} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d = %q, want %q at its start", i, lines[i], want)
		}
	}
}
