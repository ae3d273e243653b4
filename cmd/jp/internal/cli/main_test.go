package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jp/cmd/jp/internal/console"
)

// try runs one command line in an empty place.
func try(t *testing.T, environ []string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	dir := t.TempDir()
	env := console.Env{
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

// Version, help and completion work where nothing can be read: no home, no folder, a store
// place that would be refused.
func TestNothingIsReadWithoutNeed(t *testing.T) {
	for _, line := range []string{"version", "--version", "--help", "conversation ls --help", "help query", "completion bash", "__complete conversation "} {
		var out, errs bytes.Buffer
		dir := t.TempDir()
		gone := filepath.Join(dir, "gone")
		env := console.Env{Args: append([]string{"jp"}, strings.Fields(line)...), Stdout: &out, Stderr: &errs, Dir: gone,
			Environ: []string{"HOME=" + gone, "JP_STORE=/dev/null/x", "XDG_STATE_HOME=" + filepath.Join(dir, "state"), "JP_CFG_NONSENSE=1"}}
		if status := Main(context.Background(), env); status != 0 || out.Len() == 0 || errs.Len() > 0 {
			t.Errorf("jp %s: status %d, stderr %q", line, status, errs.String())
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("jp %s: left %v behind (%v)", line, entries, err)
		}
	}
}
