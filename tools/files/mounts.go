package files

import (
	"os"
	"path/filepath"
	"slices"
)

// MountList is where file systems are mounted.
type MountList struct {
	Kernel []string // folders of file systems like /proc and /sys
	all    []mount  // those of devices that are mounted more than once; the latest is the last
}

// mount is a folder of a file system that is seen at another path.
type mount struct {
	device string
	root   string // folder of the file system
	at     string // path where it is seen
}

// shared leaves out what is mounted once and so has no other name.
func (l MountList) shared() MountList {
	times := map[string]int{}
	for _, m := range l.all {
		times[m.device]++
	}
	l.all = slices.DeleteFunc(l.all, func(m mount) bool { return times[m.device] == 1 })
	return l
}

// Names returns path, absolute and without links, and all other paths of the same file or of
// folders in it, as bind mounts and mounts of subvolumes make them.
func (l MountList) Names(path string) []string {
	names, in := []string{path}, mount{}
	for _, m := range l.all {
		if Within(m.at, path) && len(m.at) >= len(in.at) {
			in = m
		}
	}
	inside := filepath.Join(in.root, below(in.at, path))
	for _, m := range l.all {
		name, part := m.at, path
		switch {
		case m.device != in.device:
			continue
		case Within(m.root, inside):
			name = filepath.Join(m.at, below(m.root, inside))
		case Within(inside, m.root):
			part = filepath.Join(path, below(inside, m.root))
		default:
			continue
		}
		// Another mount may hide it, and NFS does not say what is mounted.
		if name != part && sameFile(name, part) {
			names = append(names, name)
		}
	}
	return names
}

// below is the part of path behind dir, which it is within.
func below(dir, path string) string { return filepath.Clean(path)[len(filepath.Clean(dir)):] }

// sameFile reports whether both paths lead to the same file; where b is not there yet, whether the
// folders do in which they would be.
func sameFile(a, b string) bool {
	for {
		is, err := os.Lstat(b)
		if err == nil {
			there, err := os.Lstat(a)
			return err == nil && os.SameFile(there, is)
		}
		if !os.IsNotExist(err) || a == "/" || b == "/" {
			return false
		}
		a, b = filepath.Dir(a), filepath.Dir(b)
	}
}
