package workspace

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// terminalSession identifies the session of the controlling terminal. Its leader's start time is
// part of it: terminals and process numbers are used again.
func terminalSession() string {
	self := statFields("self")
	if len(self) < 5 || self[4] == "0" { // tty_nr
		return ""
	}
	sid, err := unix.Getsid(0)
	if err != nil {
		return ""
	}
	name := fmt.Sprintf("tty:%s:%d", self[4], sid)
	if leader := statFields(fmt.Sprint(sid)); len(leader) > 19 {
		name += ":" + leader[19] // starttime
	}
	return name
}

// statFields returns the fields of /proc/PID/stat from the third on: state, ppid, pgrp, session,
// tty_nr, ... (proc_pid_stat(5)). The second one is the program's name in parentheses, which may
// hold anything.
func statFields(pid string) []string {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return nil
	}
	text := string(b)
	return strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
}
