package proc

import (
	"os"
	"testing"
	"context"
	"bytes"
	"time"
)

func TestMain(m *testing.M) {
	Guard(os.Args)
	os.Exit(m.Run())
}

func TestSmoke(t *testing.T) {
	h := NewHost(Options{})
	defer h.Close()
	var out bytes.Buffer
	e, err := h.Run(context.Background(), Spec{Path: "sh", Args: []string{"sh", "-c", "echo hi; sleep 100 & exit 3"}, Env: []string{"PATH=/usr/bin:/bin"}, Stdout: &out})
	t.Log(e, err, out.String())
	ctx, c := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer c()
	e, err = h.Run(ctx, Spec{Path: "sh", Args: []string{"sh", "-c", "trap '' INT; setsid sleep 100 & sleep 100"}, Env: []string{"PATH=/usr/bin:/bin"}, Stdout: &out, Grace: 50*time.Millisecond})
	t.Log(e, err, out.String())
}
