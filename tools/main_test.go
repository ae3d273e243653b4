package tools

import (
	"os"
	"testing"

	"jp/tools/proc"
)

// The test binary is the guard of the processes that tests start.
func TestMain(m *testing.M) {
	proc.Guard(os.Args)
	os.Exit(m.Run())
}
