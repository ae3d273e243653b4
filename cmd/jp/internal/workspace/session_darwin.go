package workspace

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// terminalSession identifies the session of the controlling terminal.
func terminalSession() string {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return ""
	}
	tty.Close()
	sid, err := unix.Getsid(0)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("tty:%d", sid)
}
