package console

import (
	"bytes"
	"log"
	"strings"
	"testing"
)

// TestLibraries: what a library prints goes to the log, and to nobody once the command is over.
func TestLibraries(t *testing.T) {
	var stderr, other bytes.Buffer
	old := log.Writer()
	defer log.SetOutput(old)
	log.SetOutput(&other)
	c := New(Env{Environ: []string{"JP_LOG_FILE=-"}, Stderr: &stderr})
	restore := c.Libraries()
	log.Printf("Unsolicited response %q", "HTTP/1.1 \x1b[31m")
	restore()
	log.Print("after")
	if got := stderr.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"level":"WARN","msg":"Unsolicited response \"HTTP/1.1 \\x1b[31m\""`) {
		t.Errorf("log = %s", got)
	}
	if got := other.String(); !strings.HasSuffix(got, " after\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("elsewhere = %s", got)
	}
}
