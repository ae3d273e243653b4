package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/term"
	"jp/convstore"
	"jp/profiles"
	"jp/tools"
)

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		err  error
		code string
		want exit.Status
	}{
		{errors.New("x"), "failed", exit.Failed},
		{exit.Usagef("x"), "usage", exit.Usage},
		{exit.NotFoundf("x"), "not_found", exit.NotFound},
		{exit.Refusedf("x"), "refused", exit.Refused},
		{exit.Quiet(exit.Failed), "none", exit.Failed},
		{&convstore.NotFoundError{ID: 1}, "not_found", exit.NotFound},
		{&convstore.ScopeError{ID: 1, Root: 2}, "scope", exit.Scope},
		{&convstore.BusyError{ID: 1}, "busy", exit.Busy},
		{&convstore.BusyError{}, "busy", exit.Busy},
		{&convstore.ChildrenError{ID: 1, Children: 2}, "children", exit.Usage},
		{&convstore.PatternError{Pattern: "(", Err: errors.New("x")}, "pattern", exit.Usage},
		{&convstore.RangeError{ID: 1}, "usage", exit.Usage},
		{&convstore.PlaceError{Path: "/x", Reason: "y"}, "store_place", exit.Usage},
		{&convstore.SchemaError{Path: "/x", Have: 9, Want: 1}, "store_schema", exit.Failed},
		{&convstore.DamagedError{Path: "/x", Err: errors.New("y")}, "store_damaged", exit.Failed},
		{convstore.ErrReadOnly, "read_only", exit.Usage},
		{&profiles.Error{Msg: "x"}, "config", exit.Usage},
		{&profiles.Error{Msg: "x", Err: profiles.ErrModel}, "config", exit.Usage},
		{&profiles.Error{Msg: "x", Err: profiles.ErrNotFound}, "not_found", exit.NotFound},
		{fmt.Errorf("folder /x: %w", profiles.ErrNoWorkspace), "no_workspace", exit.NotFound},
		{&tools.DefinitionError{Tool: "x", Msg: "y"}, "tool_definition", exit.Usage},
		{&delegate.Refusal{Code: delegate.CodeDepth, Text: "x"}, "refused_depth", exit.Refused},
		{&model.Error{Kind: model.KindAuth}, "provider_auth", exit.Provider},
		{tools.ErrNobody, "refused", exit.Refused},
		{term.ErrNobody, "refused", exit.Refused},
		{context.DeadlineExceeded, "deadline", exit.Deadline},
		{context.Canceled, "signal", exit.Interrupted},
		{&signalError{syscall.SIGINT}, "signal", exit.Interrupted},
		{&signalError{syscall.SIGTERM}, "signal", exit.Terminated},
		{&signalError{syscall.SIGHUP}, "signal", exit.Hangup},
		{term.ErrClosed, "stdout_closed", exit.Closed},
		{&fs.PathError{Op: "open", Path: "/x", Err: syscall.EMFILE}, "too_many_files", exit.Failed},
		{&fs.PathError{Op: "write", Path: "/x", Err: syscall.ENOSPC}, "disk_full", exit.Failed},
	} {
		for _, err := range []error{c.err, fmt.Errorf("around: %w", c.err)} {
			r := explain(err)
			if r.Code != c.code || r.Status != c.want {
				t.Errorf("explain(%#v) = %s, %d; want %s, %d", err, r.Code, r.Status, c.code, c.want)
			}
			if strings.HasPrefix(r.Status.Meaning(), "status ") {
				t.Errorf("explain(%#v): status %d is not in the table", err, r.Status)
			}
		}
	}
	// A signal explains what it cut off.
	err := errors.Join(&model.Error{Kind: model.KindNetwork}, &signalError{syscall.SIGINT})
	if r := explain(err); r.Status != exit.Interrupted {
		t.Errorf("explain(%v) = %d, want %d", err, r.Status, exit.Interrupted)
	}
}

// try runs one command line in an empty place.
func try(t *testing.T, environ []string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	dir := t.TempDir()
	env := Env{
		Args: append([]string{"jp"}, args...), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Dir: dir,
		Environ: append([]string{"HOME=" + dir, "JP_NONINTERACTIVE=1", "JP_SESSION=test"}, environ...),
	}
	status = Main(context.Background(), env)
	return status, out.String(), errs.String()
}

func TestErrorsAsTextAndJSON(t *testing.T) {
	status, out, errs := try(t, nil, "conversation", "lss")
	if want := "jp: conversation: unknown command \"lss\"\nhint: did you mean ls?\n"; status != 2 || out != "" || errs != want {
		t.Errorf("status %d, stdout %q, stderr %q; want 2 and %q", status, out, errs, want)
	}
	for _, line := range []string{"-F json conversation lss", "conversation lss -F json", "conversation lss --format=stream-json", "-Fjson-pretty conversation lss", "conversation -F json lss -- -F text"} {
		status, out, errs = try(t, nil, strings.Fields(line)...)
		if want := `{"error":{"code":"usage","message":"conversation: unknown command \"lss\"","hint":"did you mean ls?"},"exit":2}` + "\n"; status != 2 || out != "" || errs != want {
			t.Errorf("jp %s: status %d, stdout %q, stderr %q; want 2 and %s", line, status, out, errs, want)
		}
	}
	status, out, errs = try(t, nil, "conversation", "-F", "json")
	if want := `{"error":{"code":"usage","message":"conversation: a command is missing","hint":"see ` + "`jp conversation --help`" + `"},"exit":2}` + "\n"; status != 2 || out != "" || errs != want {
		t.Errorf("status %d, stdout %q, stderr %q; want 2 and %s", status, out, errs, want)
	}
	status, out, errs = try(t, nil, "conversation")
	if status != 2 || out != "" || !strings.HasPrefix(errs, "jp conversation: ") {
		t.Errorf("a group alone: status %d, stdout %q, stderr %q; want 2 and its help on stderr", status, out, errs)
	}
}

// Version, help and completion work where nothing can be read: no home, no folder, a store place that would be refused.
func TestNothingIsReadWithoutNeed(t *testing.T) {
	for _, line := range []string{"version", "--version", "--help", "conversation ls --help", "help query", "completion bash", "__complete conversation "} {
		var out, errs bytes.Buffer
		dir := t.TempDir()
		gone := filepath.Join(dir, "gone")
		env := Env{Args: append([]string{"jp"}, strings.Fields(line)...), Stdout: &out, Stderr: &errs, Dir: gone,
			Environ: []string{"HOME=" + gone, "JP_STORE=/dev/null/x", "XDG_STATE_HOME=" + filepath.Join(dir, "state"), "JP_CFG_NONSENSE=1"}}
		if status := Main(context.Background(), env); status != 0 || out.Len() == 0 || errs.Len() > 0 {
			t.Errorf("jp %s: status %d, stderr %q", line, status, errs.String())
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("jp %s: left %v behind (%v)", line, entries, err)
		}
	}
}

func TestSignals(t *testing.T) {
	again := make(chan struct{}, 1)
	ctx, stop := newApp(Env{}).con.withSignals(context.Background(), func() { again <- struct{}{} })
	defer stop()
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := self.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if got := explain(context.Cause(ctx)).Status; got != exit.Terminated {
		t.Errorf("after SIGTERM: status %d, want %d", got, exit.Terminated)
	}
	if err := self.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-again
}

func TestParseTime(t *testing.T) {
	now := time.Date(2026, 5, 2, 12, 0, 0, 0, time.UTC)
	for s, want := range map[string]time.Time{
		"2026-05-01T10:00:00Z":      time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC),
		"2026-05-01T10:00:00+02:00": time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC),
		"2026-05-01":                time.Date(2026, 5, 1, 0, 0, 0, 0, time.Local),
		"2026-05-01 10:30":          time.Date(2026, 5, 1, 10, 30, 0, 0, time.Local),
		"2h":                        now.Add(-2 * time.Hour),
		"1d":                        now.Add(-24 * time.Hour),
	} {
		if got, err := parseTime(s, now); err != nil || !got.Equal(want) {
			t.Errorf("parseTime(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "yesterday", "2026-13-01", "-2h", "10:00"} {
		if got, err := parseTime(s, now); err == nil {
			t.Errorf("parseTime(%q) = %v, want an error", s, got)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "7d": 7 * 24 * time.Hour, "2w": 14 * 24 * time.Hour,
		"1w1d1h": 193 * time.Hour, "1.5h": 90 * time.Minute,
	} {
		if got, err := command.ParseDuration(s); err != nil || got != want {
			t.Errorf("parseDuration(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "0", "0s", "-1h", "d", "1", "1y", "1d1w", "999999999999d", "99999999w", "1h ", "1.5d", "292471208677d9h"} {
		if got, err := command.ParseDuration(s); err == nil {
			t.Errorf("parseDuration(%q) = %v, want an error", s, got)
		}
	}
}

func TestParseTurns(t *testing.T) {
	for s, want := range map[string]convstore.Range{
		"3": convstore.Turn(3), "2..4": {First: 2, Last: 4}, "2..": {First: 2}, "..4": {Last: 4}, "2..2": {First: 2, Last: 2}, "..": {},
	} {
		if got, err := parseTurns(s); err != nil || got != want {
			t.Errorf("parseTurns(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "0", "-1", "+1", "4..2", "1..2..3", "a", "1...2", "1-2", "0..2", "99999999999999999999"} {
		if got, err := parseTurns(s); err == nil {
			t.Errorf("parseTurns(%q) = %v, want an error", s, got)
		}
	}
}
