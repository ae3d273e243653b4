package file

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// holder returns the name of a process that holds the lock of the store or, if none does, the gate.
// It may be slow, since it is called only for an error message. It returns "" if it finds no
// process.
func (f *Folder) holder() (name string, reads bool) {
	for _, file := range []string{StoreName, GateName} {
		if pid, shared := flockHolder(f.Path(file)); pid != 0 {
			return describe(pid), shared
		}
	}
	return "", false
}

// RunHolder returns the name of a process that holds the run lock of a conversation, or "". The
// kernel records no pid for an OFD lock, but the fdinfo of each process shows the locks of its
// descriptors.
func (f *Folder) RunHolder(id int64) string {
	inode := inodeOf(f.Path(RunsName))
	infos, _ := filepath.Glob("/proc/[0-9]*/fdinfo/*")
	for _, path := range infos {
		info, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(info, []byte("OFDLCK")) {
			continue
		}
		for line := range strings.Lines(string(info)) {
			// lock:	1: OFDLCK ADVISORY  WRITE -1 fe:00:1234 17636 17638
			_, at, ours := strings.Cut(line, " "+inode+" ")
			var first, last int64
			if _, err := fmt.Sscan(at, &first, &last); ours && err == nil && first <= id && id <= last {
				pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
				return describe(pid)
			}
		}
	}
	return ""
}

// flockHolder returns a process that has an flock on a file, from /proc/locks, and whether the lock
// is shared:
//
//	1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF
func flockHolder(path string) (pid int, shared bool) {
	inode := inodeOf(path)
	file, err := os.Open("/proc/locks")
	if err != nil || inode == "" {
		return 0, false
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 6 || f[1] != "FLOCK" || f[5] != inode {
			continue
		}
		if pid, err := strconv.Atoi(f[4]); err == nil && pid > 0 {
			return pid, f[3] == "READ"
		}
	}
	return 0, false
}

// inodeOf returns a file as /proc shows it: device numbers in hexadecimal, inode in decimal.
func inodeOf(path string) string {
	info, err := os.Lstat(path)
	if err != nil {
		return ""
	}
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
}

func describe(pid int) string {
	comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if name := strings.TrimSpace(string(comm)); name != "" {
		return fmt.Sprintf("process %d (%s)", pid, name)
	}
	return fmt.Sprintf("process %d", pid)
}
