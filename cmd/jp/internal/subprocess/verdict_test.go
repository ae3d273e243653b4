package subprocess

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"jp/cmd/jp/internal/stream"
	"jp/convstore"
	"jp/tools/proc"
)

func TestVerdict(t *testing.T) {
	ended := func(s convstore.State) *convstore.TurnEnd { return &convstore.TurnEnd{State: s} }
	said := func(s convstore.State) *stream.Result { return &stream.Result{Status: string(s)} }
	deadline := fmt.Errorf("x: %w", context.DeadlineExceeded)
	cancel, lost := errors.New("interrupted"), &EndError{State: "lost"}
	tests := []struct {
		name   string
		exit   proc.Exit
		err    error
		stored *convstore.TurnEnd
		result *stream.Result
		want   convstore.State
	}{
		{"all agree", proc.Exit{}, nil, ended("ok"), said("ok"), "ok"},
		{"empty", proc.Exit{Code: 1}, nil, ended("empty"), said("empty"), "empty"},
		{"provider error", proc.Exit{Code: 8}, nil, ended("error"), said("error"), "error"},
		{"refused", proc.Exit{Code: 6}, nil, ended("refused"), said("refused"), "refused"},
		{"partial", proc.Exit{Code: 7}, nil, ended("partial"), said("partial"), "partial"},
		{"budget", proc.Exit{Code: 7}, nil, ended("budget"), said("budget"), "budget"},
		{"own timeout", proc.Exit{Code: 124}, nil, ended("timeout"), said("timeout"), "timeout"},
		{"our timeout", proc.Exit{Code: 130, Cause: deadline}, nil, ended("cancelled"), said("cancelled"), "timeout"},
		{"cancelled", proc.Exit{Code: 130, Cause: cancel}, nil, ended("cancelled"), said("cancelled"), "cancelled"},
		{"killed at the deadline", proc.Exit{Signal: syscall.SIGKILL, Cause: deadline}, nil, nil, nil, "timeout"},
		{"killed by us", proc.Exit{Signal: syscall.SIGKILL, Cause: cancel}, nil, nil, nil, "cancelled"},
		{"killed by another", proc.Exit{Signal: syscall.SIGKILL}, nil, nil, nil, "killed"},
		{"killed after its word", proc.Exit{Signal: syscall.SIGKILL}, nil, ended("ok"), said("ok"), "killed"},
		{"killed after storing", proc.Exit{Signal: syscall.SIGSEGV}, nil, ended("ok"), nil, "lost"},
		{"no word, exit 0", proc.Exit{}, nil, nil, nil, "lost"},
		{"no word, exit 1", proc.Exit{Code: 1}, nil, nil, nil, "lost"},
		{"usage error", proc.Exit{Code: 2}, nil, nil, nil, "lost"},
		{"claims ok, exits 1", proc.Exit{Code: 1}, nil, ended("ok"), said("ok"), "error"},
		{"claims ok, store open", proc.Exit{}, nil, nil, said("ok"), "lost"},
		{"store ok, no result", proc.Exit{}, nil, ended("ok"), nil, "lost"},
		{"store worse", proc.Exit{}, nil, ended("partial"), said("ok"), "partial"},
		{"result worse", proc.Exit{}, nil, ended("ok"), said("error"), "error"},
		{"unknown claim", proc.Exit{}, nil, ended("ok"), said("splendid"), "lost"},
		{"not started", proc.Exit{Code: -1}, errors.New("exec: no such file"), nil, nil, "error"},
		{"stopped before it was started", proc.Exit{Code: -1, Cause: cancel}, cancel, nil, nil, "cancelled"},
		{"late before it was started", proc.Exit{Code: -1, Cause: deadline}, deadline, nil, nil, "timeout"},
		{"no key, before a turn", proc.Exit{Code: 8}, nil, nil, nil, "error"},
		{"mismatch, before a turn", proc.Exit{Code: 6}, nil, nil, nil, "refused"},
		{"late, before a turn", proc.Exit{Code: 124}, nil, nil, nil, "timeout"},
		{"stopped before its turn", proc.Exit{Code: 130, Cause: cancel}, nil, nil, said("cancelled"), "cancelled"},
		{"stopped before its turn by another", proc.Exit{Code: 130}, nil, nil, said("cancelled"), "cancelled"},
		{"our timeout before its turn", proc.Exit{Code: 130, Cause: deadline}, nil, nil, said("cancelled"), "timeout"},
		{"stopped, store open", proc.Exit{Code: 130, Cause: cancel}, nil, nil, &stream.Result{Status: "cancelled", Turn: 1}, "lost"},
		{"killed by us after it stored its end", proc.Exit{Signal: syscall.SIGKILL, Cause: cancel}, nil, ended("cancelled"), nil, "cancelled"},
		{"something still runs", proc.Exit{}, errors.New("1 process left"), ended("ok"), said("ok"), "error"},
		{"partial, and something still runs", proc.Exit{Code: 7}, errors.New("1 process left"), ended("partial"), said("partial"), "error"},
		{"finished at the deadline", proc.Exit{Cause: deadline}, nil, ended("ok"), said("ok"), "ok"},
		{"lost elsewhere", proc.Exit{Code: -1}, lost, nil, nil, "lost"},
		{"lost elsewhere, in a turn", proc.Exit{Code: -1}, lost, nil, said("ok"), "lost"},
		{"lost elsewhere, no result", proc.Exit{Code: -1}, lost, ended("ok"), nil, "lost"},
		{"lost elsewhere, handed in", proc.Exit{Code: -1}, lost, ended("ok"), said("ok"), "ok"},
		{"lost elsewhere at the deadline, handed in", proc.Exit{Code: -1, Cause: deadline}, lost, ended("cancelled"), said("cancelled"), "timeout"},
		{"refused elsewhere", proc.Exit{Code: -1}, &EndError{State: "refused"}, nil, nil, "refused"},
		{"broke the protocol elsewhere, handed in", proc.Exit{Code: -1}, &EndError{State: "error"}, ended("ok"), said("ok"), "error"},
		{"partial at the deadline", proc.Exit{Code: 7, Cause: deadline}, nil, ended("partial"), said("partial"), "partial"},
	}
	for _, tt := range tests {
		if got, reason := Verdict(tt.exit, tt.err, tt.stored, tt.result, nil); got != tt.want {
			t.Errorf("%s: verdict = %s (%s), want %s", tt.name, got, reason, tt.want)
		}
	}
}

// TestVerdictSaysWhy keeps what is wrong beside how a process ended.
func TestVerdictSaysWhy(t *testing.T) {
	left := errors.New("gpu1: process tree: could not be ended: 12")
	for _, tt := range []struct {
		exit proc.Exit
		want string
	}{
		{proc.Exit{Code: -1}, "error, it could not be run: gpu1: process tree: could not be ended: 12"},
		{proc.Exit{}, "lost, the process ended (exit 0) without a word: gpu1: process tree: could not be ended: 12"},
		{proc.Exit{Code: 6}, "refused, refused by policy: gpu1: process tree: could not be ended: 12"},
		{proc.Exit{Code: -1, Signal: syscall.SIGKILL}, "killed, by SIGKILL: gpu1: process tree: could not be ended: 12"},
		{proc.Exit{Code: 130, Cause: context.Canceled}, "cancelled, stopped by its caller"},
		{proc.Exit{Code: 130, Cause: &NodeError{"the worker on gpu1 was ended: ended by SIGTERM"}}, "cancelled, the worker on gpu1 was ended: ended by SIGTERM"},
	} {
		if state, reason := Verdict(tt.exit, left, nil, nil, nil); string(state)+", "+reason != tt.want {
			t.Errorf("verdict(%+v) = %s, %s, want %s", tt.exit, state, reason, tt.want)
		}
	}
}

// TestStacksAreNoMessages: what the Go runtime prints when a sub-agent crashes is no message of it,
// in whatever pieces it comes.
func TestStacksAreNoMessages(t *testing.T) {
	deep := strings.Repeat("jp/cmd/jp/internal/agent.(*Loop).call(0xc000)\n\t/src/agent.go:12 +0x1d\n", 200)
	for _, tt := range []struct{ said, want string }{
		{"jp: a note\npanic: boom\n\ngoroutine 1 [running]:\n" + deep, "jp: a note\npanic: boom"},
		{"SIGQUIT: quit\nPC=0x47 m=0 sigcode=0\n\ngoroutine 0 gp=0x1 m=0 [idle]:\n" + deep + "rax 0x1\n", "SIGQUIT: quit"},
		{"fatal error: out of memory\n\nruntime stack:\n" + deep, "fatal error: out of memory"},
		{"jp: runtime stack: no\ngoroutine 1 of them\n", "jp: runtime stack: no\ngoroutine 1 of them"},
	} {
		for _, size := range []int{1, 7, 1000, 1 << 20} {
			w := &Messages{}
			for part := range slices.Chunk([]byte(tt.said), size) {
				if n, err := w.Write(part); n != len(part) || err != nil {
					t.Fatalf("Write = %d, %v", n, err)
				}
			}
			if got := w.String(); got != tt.want {
				t.Errorf("in pieces of %d: messages %.100q, want %q", size, got, tt.want)
			}
			if crashed := strings.Contains(tt.said, deep); crashed != (len(w.Stacks()) > 10<<10) {
				t.Errorf("in pieces of %d: %d bytes of stacks", size, len(w.stacks))
			}
		}
	}
}
